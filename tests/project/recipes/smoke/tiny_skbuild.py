"""tiny-skbuild: the library that it loads holds code, and talks to the runtime of CUDA 13."""

import tiny_skbuild

assert tiny_skbuild.answer() == 42, tiny_skbuild.answer()
assert tiny_skbuild.runtime_version() // 1000 == 13, tiny_skbuild.runtime_version()
