"""torch-cluster on the CPU: points sorted into the cells of a grid, and their neighbours."""

import torch
from torch_cluster import grid_cluster, knn

points = torch.tensor([[0.0, 0.0], [11.0, 9.0], [2.0, 8.0], [2.0, 2.0], [8.0, 3.0]])

cells = grid_cluster(points, torch.tensor([5.0, 5.0]))
assert cells.tolist() == [0, 5, 3, 0, 1], cells

nearest = knn(points, torch.tensor([[1.0, 1.5]]), 1)
assert nearest.tolist() == [[0], [3]], nearest
