"""torch-spline-conv on the CPU: the weights of the basis functions at a point add up to one."""

import torch
from torch_spline_conv import spline_basis

points = torch.tensor([[0.0, 0.25], [0.5, 1.0]])
sizes, is_open = torch.tensor([5, 5]), torch.tensor([1, 1], dtype=torch.uint8)

basis, positions = spline_basis(points, sizes, is_open, 1)
assert torch.allclose(basis.sum(1), torch.ones(2)), basis
assert positions.shape == (2, 4), positions
