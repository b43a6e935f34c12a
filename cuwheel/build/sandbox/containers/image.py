"""The image that a build runs in, named with its digest, never by a tag alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from cuwheel.base.errors import UsageError

IMAGE_VARIABLE = "CUWHEEL_IMAGE"
"""Set only for the cuwheel in a container: the image that it runs in."""

# Names as in the OCI Distribution Specification, with a registry and perhaps a tag, which means
# nothing with a digest; or the ID of an image, which podman and docker both take for its name.
_PINNED = re.compile(
    r"((?P<name>[\w.-]+(:\d+)?(/[\w.-]+)*)(:[\w][\w.-]*)?@)?sha256:(?P<digest>[0-9a-f]{64})"
)
_TAG = re.compile(r":[\w.-]+$")


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image pinned by digest.

    Attributes:
        reference: podman's and docker's name: `quay.io/pypa/manylinux_2_28_x86_64@sha256:…`, or
            `sha256:…` for the ID of one that was made on this machine.
        name: without digest; empty for an ID.
        digest: SHA-256 in hexadecimal, of the image's manifest; for an ID, of its configuration,
            which names the digest of each layer.
    """

    reference: str
    name: str
    digest: str

    @property
    def package_url(self) -> str:
        """Name by package-url's type `oci`; empty for an ID, which no registry knows."""
        if not self.name:
            return ""
        last = self.name.rpartition("/")[2].lower()
        repository = quote(self.name, safe="/")
        return f"pkg:oci/{last}@sha256%3A{self.digest}?repository_url={repository}"


def parse_image(text: str) -> Image:
    """Parse the value of `--container`.

    Raises:
        UsageError: it has no digest, or isn't the name of an image.
    """
    match = _PINNED.fullmatch(text)
    if match is None:
        tagged = text.partition("@")[0]
        name = _TAG.sub("", tagged)
        raise UsageError(
            f"--container {text} is not pinned by digest",
            why="a tag can point to another image tomorrow; a wheel's rebuild key and provenance "
            "record the image it was built in",
            fix=f"`podman pull {tagged}`, then `podman image inspect --format '{{{{.Digest}}}}' "
            f"{tagged}` (docker: '{{{{index .RepoDigests 0}}}}') prints the digest: write "
            f"{name}@sha256:…; for an image built on this machine, write its ID ('{{{{.Id}}}}') "
            "as sha256:…",
        )
    return Image(reference=text, name=match["name"] or "", digest=match["digest"])


def image_here(environ: Mapping[str, str]) -> Image | None:
    """Return the image that this process was started in by `--container`; None outside."""
    reference = environ.get(IMAGE_VARIABLE)
    return parse_image(reference) if reference else None
