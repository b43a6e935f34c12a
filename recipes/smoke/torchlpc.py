"""torchlpc on the CPU: a filter of the second order, and one of the first."""

import torch
from torchlpc import EXTENSION_LOADED, sample_wise_lpc

assert EXTENSION_LOADED
steps = torch.ones(1, 4)
for order, expected in ((2, [1, 0, 0, 1]), (1, [1, 0, 1, 0])):
    filtered = sample_wise_lpc(steps, torch.ones(1, 4, order))
    assert filtered.tolist() == [expected], filtered
