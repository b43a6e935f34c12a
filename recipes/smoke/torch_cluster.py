"""torch-cluster on the CPU: points sorted into the cells of a grid."""

import torch
from torch_cluster import grid_cluster

points = torch.tensor([[0.0, 0.0], [11.0, 9.0], [2.0, 8.0], [2.0, 2.0], [8.0, 3.0]])
cells = grid_cluster(points, torch.tensor([5.0, 5.0]))
assert cells.tolist() == [0, 5, 3, 0, 1], cells
