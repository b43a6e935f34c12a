"""Facts about CUDA: toolkits, components, NVIDIA's wheels and the suppliers of libraries."""

__all__ = [
    "components",
    "driver_functions",
    "frameworks",
    "installed_toolkits",
    "library_choice",
    "suppliers",
    "toolkits",
    "torch_exports",
]
