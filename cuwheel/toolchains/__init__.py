"""CUDA homes, host compilers and Pythons: from wheels, from conda, from the machine.

Called by the stages `toolchain`, `environment` and `preflight`. Face: `pypi`, `conda`, `cuda_home`,
`host_compiler`, `pythons`.
"""
