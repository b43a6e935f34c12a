"""torchsort on the CPU: with little regularization, the order itself."""

import torch
from torchsort import soft_rank, soft_sort

values = torch.tensor([[3.0, 1.0, 2.0]])

ranks = soft_rank(values, regularization_strength=0.1)
assert torch.allclose(ranks, torch.tensor([[3.0, 1.0, 2.0]])), ranks

ordered = soft_sort(values, regularization="kl", regularization_strength=0.01)
assert torch.allclose(ordered, torch.tensor([[1.0, 2.0, 3.0]])), ordered
