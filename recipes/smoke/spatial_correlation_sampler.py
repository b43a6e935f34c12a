"""spatial-correlation-sampler on the CPU: products of a pixel with its neighbours' pixels."""

import torch
from spatial_correlation_sampler import spatial_correlation_sample

first = torch.full((1, 2, 1, 3), 2.0)
second = torch.tensor([1.0, 3.0, 5.0]).expand(1, 2, 1, 3).contiguous()
products = spatial_correlation_sample(first, second, patch_size=(1, 3))
assert products.flatten(1, 3).tolist() == [[[0, 4, 12], [4, 12, 20], [12, 20, 0]]], products
