"""torch-sparse on the CPU, by its operators: its Python code needs torch-scatter too."""

import importlib.metadata

import torch

for file in importlib.metadata.files("torch-sparse") or ():
    if file.suffix == ".so":
        torch.ops.load_library(file.locate())

operators = torch.ops.torch_sparse
pointers = operators.ind2ptr(torch.tensor([0, 0, 2]), 3)
assert pointers.tolist() == [0, 2, 2, 3], pointers
sums = operators.spmm_sum(
    None, pointers, torch.tensor([0, 1, 0]), torch.ones(3), None, None, torch.eye(2)
)
assert sums.tolist() == [[1, 1], [0, 0], [1, 0]], sums
assert operators.cuda_version() > 0
