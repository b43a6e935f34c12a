"""torch-discounted-cumsum on the CPU: each sum is half the one before, and a one."""

import torch
from torch_discounted_cumsum import discounted_cumsum_left, discounted_cumsum_right

ones = torch.ones(1, 3)

assert discounted_cumsum_left(ones, 0.5).tolist() == [[1, 1.5, 1.75]]
assert discounted_cumsum_right(ones, 0.5).tolist() == [[1.75, 1.5, 1]]
