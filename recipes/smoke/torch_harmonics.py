"""torch-harmonics on the CPU: a constant has one harmonic, and its kernels' tables are made."""

import math

import torch
from torch_harmonics import DiscreteContinuousConvS2, RealSHT

harmonics = RealSHT(8, 16)(torch.ones(8, 16))
expected = torch.zeros_like(harmonics)
expected[0, 0] = math.sqrt(4 * math.pi)
assert torch.allclose(harmonics, expected, atol=1e-5), harmonics

convolution = DiscreteContinuousConvS2(1, 1, (8, 16), (8, 16), kernel_shape=3)
assert convolution(torch.ones(1, 1, 8, 16)).shape == (1, 1, 8, 16)
