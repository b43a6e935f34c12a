"""Facts about CUDA: toolkits, here and by table, components, wheels, suppliers of libraries."""

__all__ = [
    "components",
    "driver_functions",
    "drivers",
    "frameworks",
    "installed_toolkits",
    "library_choice",
    "library_functions",
    "suppliers",
    "toolkit_search",
    "toolkits",
    "torch_exports",
]
