"""torch-memory-saver without a driver: the library of each mode is found for PyTorch's CUDA."""

import torch
from torch_memory_saver.utils import get_binary_path_from_package

assert torch.version.cuda
for mode in ("preload", "torch"):
    path = get_binary_path_from_package(f"torch_memory_saver_hook_mode_{mode}")
    assert f"_cu{torch.version.cuda.partition('.')[0]}." in path.name, path
