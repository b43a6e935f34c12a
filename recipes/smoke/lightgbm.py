"""lightgbm on the CPU: a tree that tells small numbers from large ones."""

import lightgbm
import numpy

numbers = numpy.arange(100.0)[:, None]
labels = numpy.repeat([0.0, 2.0], 50)
options = {"min_data_in_bin": 1, "num_leaves": 2, "learning_rate": 1.0, "verbose": -1}
tree = lightgbm.train(options, lightgbm.Dataset(numbers, labels), num_boost_round=1)
assert tree.predict([[49.0], [50.0]]).tolist() == [0.0, 2.0]
