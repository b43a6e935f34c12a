"""Facts about CUDA: toolkits, components, NVIDIA's wheels and the suppliers of libraries."""

__all__ = [
    "components",
    "driver_functions",
    "frameworks",
    "installed_toolkits",
    "library_choice",
    "suppliers",
    "toolkit_search",
    "toolkits",
    "torch_exports",
]
