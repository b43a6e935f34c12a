from __future__ import annotations

import email
from pathlib import Path, PurePosixPath

import pytest

from cuwheel.base.formats.wheel.metadata import (
    file_name,
    header,
    headers,
    installed_path,
    is_library,
    offer,
    release,
    rename,
    require,
    set_tags,
    unread_headers,
)

_METADATA = b"""Metadata-Version: 2.1
Name: Tiny.CUDA
Version: 1.2.3
License: a text
        of two lines
Requires-Dist: einops
Requires-Dist: torch (>=2.0)
Requires-Dist: torch<2; extra == "old"
Requires-Dist: ninja
Provides-Extra: old

Version: 9 is not a header here.\r\n\xff\xfe no text at all
Requires-Dist: neither
"""
_OF_EXTRA = 'torch<2; extra == "old"'
_WHEEL = b"""Wheel-Version: 1.0
Generator: test
Root-Is-Purelib: true
Tag: py3-none-any
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    dist_info = tmp_path / "Tiny.CUDA-1.2.3.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_bytes(_METADATA)
    (dist_info / "WHEEL").write_bytes(_WHEEL)
    return tmp_path


def _metadata(folder: Path) -> bytes:
    return next(folder.glob("*.dist-info/METADATA")).read_bytes()


def _requires(folder: Path) -> tuple[str, ...]:
    return header(_metadata(folder).decode("utf-8", "replace"), "Requires-Dist")


def test_reads_on_after_line_of_spaces() -> None:
    """As in a licence's text (faiss-gpu-cu12 1.14.1.post1): it belongs to the header before."""
    text = "License: one\n        \n        two\nRequires-Dist: numpy\n\nRequires-Dist: none\n"

    assert header(text, "requires-dist") == ("numpy",)


def test_changes_version_line_and_no_other_byte(folder: Path) -> None:
    rename(folder, version="1.2.3+cu130")

    expected = _METADATA.replace(b"\nVersion: 1.2.3\n", b"\nVersion: 1.2.3+cu130\n")
    assert _metadata(folder) == expected


def test_renames_folders_of_version(folder: Path) -> None:
    (folder / "Tiny.CUDA-1.2.3.data").mkdir()

    rename(folder, version="1.2.3+cu130")

    names = sorted(path.name for path in folder.iterdir())
    assert names == ["Tiny.CUDA-1.2.3+cu130.data", "Tiny.CUDA-1.2.3+cu130.dist-info"]


@pytest.mark.parametrize(
    ("required", "expected"),
    [
        (["Torch==2.11.*"], ("einops", "Torch==2.11.*", _OF_EXTRA, "ninja")),
        (
            ["b>=13.0,<14", "a<2"],
            ("einops", "torch (>=2.0)", _OF_EXTRA, "ninja", "b>=13.0,<14", "a<2"),
        ),
    ],
    ids=["in its place", "at the end"],
)
def test_requires(folder: Path, required: list[str], expected: tuple[str, ...]) -> None:
    require(folder, required)

    assert _requires(folder) == expected


def test_keeps_other_bytes_of_metadata(folder: Path) -> None:
    require(folder, ["torch==2.11.*"])

    expected = _METADATA.replace(b"torch (>=2.0)", b"torch==2.11.*")
    assert _metadata(folder) == expected


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (
            'Requires-Dist: torch; os_name == "a"\nRequires-Dist: torch>=2\nRequires-Dist: ninja',
            "Requires-Dist: torch==2.11.*\nRequires-Dist: ninja\n",
        ),
        (
            "Name: tiny\r\nVersion: 1\r\n\r\ntext",
            "Name: tiny\r\nVersion: 1\r\nRequires-Dist: torch==2.11.*\r\n\r\ntext",
        ),
        (
            "Requires-Dist: what is this?\n\n",
            "Requires-Dist: what is this?\nRequires-Dist: torch==2.11.*\n\n",
        ),
    ],
    ids=["equal ones", "first one", "unreadable one"],
)
def test_requires_beside(folder: Path, metadata: str, expected: str) -> None:
    path = next(folder.glob("*.dist-info/METADATA"))
    path.write_bytes(metadata.encode())

    require(folder, ["torch==2.11.*"])

    assert path.read_bytes() == expected.encode()


def test_writes_tags_of_wheel_with_libraries(folder: Path) -> None:
    set_tags(folder, ["py3-none-manylinux_2_28_x86_64"])

    text = next(folder.glob("*.dist-info/WHEEL")).read_text()
    expected = _WHEEL.decode().replace("true", "false")
    assert text == expected.replace("py3-none-any", "py3-none-manylinux_2_28_x86_64")


def test_names_file_after_compressed_tags_and_build(folder: Path) -> None:
    path = next(folder.glob("*.dist-info/WHEEL"))
    path.write_text("Build: 4\nTag: py3-none-any\nTag: py2-none-any\n")

    assert file_name(folder) == "Tiny.CUDA-1.2.3-4-py2.py3-none-any.whl"


@pytest.mark.parametrize(
    ("member", "place"),
    [
        ("pkg/a.so", "pkg/a.so"),
        ("tiny-1.data/platlib/pkg/a.so", "pkg/a.so"),
        ("tiny-1.data/purelib/a.py", "a.py"),
        ("tiny-1.data/scripts/run", None),
        ("tiny-1.data/data/lib/a.so", None),
    ],
)
def test_knows_place_of_member(member: str, place: str | None) -> None:
    assert installed_path(member) == (PurePosixPath(place) if place else None)


def test_gives_project_another_name(folder: Path) -> None:
    rename(folder, version="1.2.3", project="tiny-cuda-cuda13x")

    assert _metadata(folder) == _METADATA.replace(b"Tiny.CUDA", b"tiny-cuda-cuda13x")
    assert (folder / "tiny_cuda_cuda13x-1.2.3.dist-info").is_dir()


def test_takes_back_requirements_but_not_those_of_extras(folder: Path) -> None:
    release(folder, ["Torch", "ninja"])

    assert _requires(folder) == ("einops", 'torch<2; extra == "old"')


def test_offers_new_extra(folder: Path) -> None:
    lines = offer(folder, "CUDA_pip", ["nvidia-cufft>=12.0,<13"])

    text = _metadata(folder).decode("utf-8", "replace")
    assert lines == ('nvidia-cufft>=12.0,<13; extra == "cuda-pip"',)
    assert header(text, "provides-extra") == ("old", "cuda-pip")
    assert _requires(folder)[-1] == lines[0]


def test_adds_to_extra_that_is_there(folder: Path) -> None:
    offer(folder, "Old", ["ninja"])

    text = _metadata(folder).decode("utf-8", "replace")
    assert header(text, "provides-extra") == ("old",)
    assert _requires(folder)[-1] == 'ninja; extra == "old"'


def test_offers_extra_once(folder: Path) -> None:
    offer(folder, "cuda", ["ninja"])
    before = _metadata(folder)

    offer(folder, "cuda", ["ninja"])

    assert _metadata(folder) == before


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pkg/a.so", True),
        ("pkg/lib/libb.so.12", True),
        ("pkg-1.0+cu130.source.h0a1b.dist-info/RECORD", False),
        ("pkg/a.so.py", False),
    ],
)
def test_knows_library_by_its_name(name: str, *, expected: bool) -> None:
    assert is_library(name) is expected


@pytest.mark.parametrize(
    ("text", "names", "unread"),
    [
        ("Name: a\nVersion: 1\n\nName: b\n", ["name", "version"], (0, ())),
        ("Name: a\n b\n\tc\nVersion: 1\n", ["name", "version"], (0, ())),
        ("Name: a\nb\nVersion: 1\nx: y\n\nLicense: c\n", ["name"], (2, ("Version",))),
        ("Name: a\r\nb\r\nVersion: 1\r\n\r\nLicense: c\r\n", ["name"], (2, ("Version",))),
        ("Name : a\nVersion: 1\n", [], (1, ("Name ", "Version"))),
    ],
)
def test_reads_headers_as_email_does(
    text: str, names: list[str], unread: tuple[int, tuple[str, ...]]
) -> None:
    parsed = email.message_from_string(text)

    assert [name for name, _ in headers(text)] == names == [name.lower() for name in parsed]
    assert unread_headers(text) == unread
