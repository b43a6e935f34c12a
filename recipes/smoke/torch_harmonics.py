"""torch-harmonics on the CPU: a constant has one harmonic, and its kernels' tables are made."""

import math

import torch
from torch_harmonics import DiscreteContinuousConvS2, RealSHT

harmonics = RealSHT(8, 16)(torch.ones(8, 16))
assert math.isclose(harmonics[0, 0].real, math.sqrt(4 * math.pi), rel_tol=1e-5), harmonics[0, 0]
assert harmonics.flatten()[1:].abs().max() < 1e-5, harmonics

convolution = DiscreteContinuousConvS2(1, 1, (8, 16), (8, 16), kernel_shape=3)
assert convolution(torch.ones(1, 1, 8, 16)).shape == (1, 1, 8, 16)
