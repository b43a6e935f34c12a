"""A build's command run in an image pinned by digest, by podman or docker."""

__all__ = ["engine", "image"]
