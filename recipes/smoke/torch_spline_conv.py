"""torch-spline-conv on the CPU, with the libraries that hold the CUDA kernels."""

import torch
from torch_spline_conv import spline_basis, spline_weighting

places, sizes = torch.tensor([[0.0], [0.25]]), torch.tensor([5])
basis, index = spline_basis(places, sizes, torch.tensor([1], dtype=torch.uint8), 1)
assert basis.tolist() == [[1, 0], [1, 0]], basis
assert index.tolist() == [[0, 1], [1, 2]], index

sums = spline_weighting(torch.ones(2, 3), torch.ones(5, 3, 1), basis, index)
assert sums.tolist() == [[3], [3]], sums
assert torch.ops.torch_spline_conv.cuda_version() > 0
