"""torch-harmonics on the CPU: a transform and back, and a convolution, whose set-up is compiled."""

import torch
from torch_harmonics import DiscreteContinuousConvS2, InverseRealSHT, RealSHT

field = InverseRealSHT(8, 16)(torch.ones(8, 9, dtype=torch.complex128))
again = InverseRealSHT(8, 16)(RealSHT(8, 16)(field))
assert torch.allclose(field, again, atol=1e-5), (field - again).abs().max()

convolve = DiscreteContinuousConvS2(1, 2, (8, 16), (8, 16), (3, 3))
assert convolve(torch.ones(1, 1, 8, 16)).shape == (1, 2, 8, 16)
