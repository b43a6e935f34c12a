"""nerfacc on the CPU, where its calls without rays in packs need no kernel."""

import torch
from nerfacc import csrc, render_weight_from_alpha

weights, transmittance = render_weight_from_alpha(torch.tensor([[0.5, 0.5, 1.0]]))
assert weights.tolist() == [[0.5, 0.25, 0.25]], weights
assert transmittance.tolist() == [[1, 0.5, 0.25]], transmittance
assert callable(csrc.inclusive_sum)
