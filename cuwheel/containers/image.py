"""The image that a build runs in: named with its digest, never by a tag alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from cuwheel.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


IMAGE_VARIABLE = "CUWHEEL_IMAGE"
"""Set only for the cuwheel in a container: the image that it runs in."""

# Names as in the OCI Distribution Specification, with a registry and perhaps a tag, which says
# nothing beside a digest; or the ID of an image, which podman and docker both take for its name.
_PINNED = re.compile(
    r"((?P<name>[\w.-]+(:\d+)?(/[\w.-]+)*)(:[\w][\w.-]*)?@)?sha256:(?P<digest>[0-9a-f]{64})"
)
_TAG = re.compile(r":[\w.-]+$")


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image that can't be another one tomorrow.

    Attributes:
        reference: what podman and docker call it: `quay.io/pypa/manylinux_2_28_x86_64@sha256:…`,
            or `sha256:…` for the ID of one that was made on this machine.
        name: without digest; empty for an ID.
        digest: SHA-256 in hexadecimal, of the image's manifest; where an ID was given, of its
            configuration, which names the digest of each layer.
    """

    reference: str
    name: str
    digest: str

    @property
    def package_url(self) -> str:
        """As package-url's type `oci` names images; empty for an ID, which no registry knows."""
        if not self.name:
            return ""
        last = self.name.rpartition("/")[2].lower()
        where = quote(self.name, safe="/")
        return f"pkg:oci/{last}@sha256%3A{self.digest}?repository_url={where}"


def parse_image(text: str) -> Image:
    """Read what `--container` names.

    Raises:
        UsageError: it has no digest, or isn't the name of an image.
    """
    found = _PINNED.fullmatch(text)
    if found is None:
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
    return Image(reference=text, name=found["name"] or "", digest=found["digest"])


def image_here(environ: Mapping[str, str]) -> Image | None:
    """The image that this process was started in by `--container`; None outside."""
    reference = environ.get(IMAGE_VARIABLE)
    return parse_image(reference) if reference else None
