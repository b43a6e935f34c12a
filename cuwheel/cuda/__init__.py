"""What is known of CUDA: toolkits, components, NVIDIA's wheels, who supplies a library.

Called by everyone who decides about linkage or archs. Tables with their sources; nothing of them
depends on a recipe. Face: `toolkits`, `components`, `suppliers`, `frameworks`.
"""
