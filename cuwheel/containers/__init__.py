"""A build's command run in an image pinned by digest, by podman or docker.

Called by `cli/container_build`, and by those who ask in which image they run. Face:
`engine.Engine`, `mounts.share`, `image.image_here`.
"""
