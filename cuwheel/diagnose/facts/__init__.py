"""What the machine says of itself: driver, GPUs, toolkits, environments, libraries.

Called by `diagnose`. Each fact is a record; asking has a time limit (`deadline`).
"""
