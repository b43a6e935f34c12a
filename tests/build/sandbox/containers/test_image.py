from __future__ import annotations

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.build.sandbox.containers.image import IMAGE_VARIABLE, Image, image_here, parse_image

DIGEST = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("quay.io/pypa/manylinux_2_28_x86_64", "quay.io/pypa/manylinux_2_28_x86_64"),
        ("localhost:5000/own/image:1.2", "localhost:5000/own/image"),
        ("debian", "debian"),
    ],
)
def test_reads_name_with_digest(name: str, expected: str) -> None:
    reference = f"{name}@sha256:{DIGEST}"

    assert parse_image(reference) == Image(reference=reference, name=expected, digest=DIGEST)


def test_reads_id_of_local_image() -> None:
    image = parse_image(f"sha256:{DIGEST}")

    assert (image.name, image.digest, image.package_url) == ("", DIGEST, "")


def test_refuses_tag_with_a_fix() -> None:
    with pytest.raises(UsageError) as caught:
        parse_image("quay.io/pypa/manylinux_2_28_x86_64:2026.11")

    assert "is not pinned by digest" in caught.value.what
    assert "podman image inspect --format '{{.Digest}}'" in caught.value.fix
    assert "write quay.io/pypa/manylinux_2_28_x86_64@sha256:…" in caught.value.fix


@pytest.mark.parametrize(
    "text", ["", "debian@sha256:12ab", f"debian@md5:{DIGEST}", f"--privileged@sha256:{DIGEST}x"]
)
def test_refuses_what_is_no_pin(text: str) -> None:
    with pytest.raises(UsageError):
        parse_image(text)


def test_package_url_names_registry() -> None:
    image = parse_image(f"quay.io/pypa/Many@sha256:{DIGEST}")

    url = f"pkg:oci/many@sha256%3A{DIGEST}?repository_url=quay.io/pypa/Many"
    assert image.package_url == url


def test_knows_image_that_it_runs_in() -> None:
    inside = image_here({IMAGE_VARIABLE: f"debian@sha256:{DIGEST}"})

    assert inside
    assert inside.name == "debian"
    assert image_here({}) is None
