"""torch-sparse on the CPU: rows as pointers and back, and the largest of each row's products."""

import torch
import torch_sparse  # noqa: F401  (registers the operators)

operators = torch.ops.torch_sparse
rows, columns = torch.tensor([0, 0, 2]), torch.tensor([0, 1, 1])

pointers = operators.ind2ptr(rows, 3)
assert pointers.tolist() == [0, 2, 2, 3], pointers
assert operators.ptr2ind(pointers, 3).tolist() == rows.tolist()

largest, _ = operators.spmm_max(pointers, columns, torch.ones(3), torch.tensor([[4.0], [7.0]]))
assert largest.tolist() == [[7], [0], [7]], largest
