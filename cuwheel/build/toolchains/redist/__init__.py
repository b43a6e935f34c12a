"""NVIDIA's redistributable archives: manifests, locks, downloads, and one home of many parts."""
