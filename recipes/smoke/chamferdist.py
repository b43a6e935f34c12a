"""chamferdist on the CPU: squared distances to the nearest points."""

import torch
from chamferdist import ChamferDistance

source = torch.tensor([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]])
target = torch.tensor([[[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]])

distance = ChamferDistance()(source, target)
assert distance.item() == 4 + 5, distance
