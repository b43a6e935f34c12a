"""torch-scatter on the CPU, with the libraries that hold the CUDA kernels."""

import torch
from torch_scatter import scatter_max, segment_csr

values = torch.tensor([1.0, 5.0, 2.0, 4.0])

largest, positions = scatter_max(values, torch.tensor([0, 0, 1, 1]))
assert largest.tolist() == [5, 4], largest
assert positions.tolist() == [1, 3], positions

sums = segment_csr(values, torch.tensor([0, 3, 4]))
assert sums.tolist() == [8, 4], sums
assert torch.ops.torch_scatter.cuda_version() > 0
