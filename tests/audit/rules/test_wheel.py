"""The rules for the wheel as a whole, each with the defect planted that it is there for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.audit.verdict import audit_wheel
from tests.support.factories import write_wheel
from tests.support.planted import CODE, MEMBER, TAG, judged, make_library, rewrite, told

if TYPE_CHECKING:
    from pathlib import Path

if TYPE_CHECKING:
    from pathlib import Path


_MODULE = "void *PyInit_ext(void) { return 0; }\n"


@pytest.mark.parametrize(
    ("name", "requires", "severity"),
    [
        ("pkg.libs/libcudart-1a2b3c4d.so.13.0.96", (), "warning"),
        ("pkg.libs/libcudart.1a2b3c4d.so.13", (), "warning"),
        ("pkg/cuda/libcudart.so.13", ("nvidia-cuda-runtime",), "warning"),
        ("pkg/cuda/libcudart.so.13", (), "note"),
    ],
    ids=["auditwheel", "script", "second", "meant"],
)
def test_finds_copied_library(
    tmp_path: Path, name: str, requires: tuple[str, ...], severity: str
) -> None:
    copy = make_library(tmp_path / "copy")

    found = told(judged(tmp_path, {name: copy}, requires=requires))

    fact = "a library that belongs to another wheel is copied in"
    assert f"{severity}: {name}: grafted library: {fact}" in found


@pytest.mark.parametrize(
    ("builtins", "is_torn"),
    [("libnvrtc-builtins-5e6f7081.so.12.6.85", True), ("libnvrtc-builtins.so.12.6", False)],
)
def test_finds_copy_that_misses_what_it_opens(
    tmp_path: Path, builtins: str, *, is_torn: bool
) -> None:
    """As in cumm-cu126 0.8.2: NVRTC fails to open its builtins under the name they got."""
    copy = make_library(tmp_path / "copy")
    nvrtc = "pkg.libs/libnvrtc-1a2b3c4d.so.12.6.85"

    found = told(judged(tmp_path, {nvrtc: copy, f"pkg.libs/{builtins}": copy}))

    fact = "it opens libnvrtc-builtins.so.12.* by name, and no file of the wheel is called so"
    assert (f"error: {nvrtc}: grafted library: {fact}" in found) is is_torn


@pytest.mark.parametrize(
    ("tag", "is_found"),
    [("cp310-abi3", True), ("py3-none", True), ("cp312-cp312", True), ("cp310-cp310", False)],
)
def test_finds_module_for_another_python(tmp_path: Path, tag: str, *, is_found: bool) -> None:
    library = make_library(tmp_path / "made", code=_MODULE)
    name = "pkg/ext.cpython-310-x86_64-linux-gnu.so"

    found = told(judged(tmp_path, {name: library}, tag=f"{tag}-manylinux_2_39_x86_64"))

    fact = "Python 3.10 alone can import it, and the tag is"
    assert any(f"warning: {name}: tag: {fact}" in line for line in found) is is_found


def test_finds_module_for_free_threaded_python(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", code=_MODULE)
    name = "pkg/ext.cpython-314t-x86_64-linux-gnu.so"

    found = told(judged(tmp_path, {name: library}, tag="cp313-cp313t-manylinux_2_39_x86_64"))

    assert any("Python 3.14 alone can import it" in line for line in found)


def test_lets_modules_for_several_pythons_pass(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", code=_MODULE)
    files: dict[str, Path | bytes] = {
        f"pkg/ext.cpython-3{minor}-x86_64-linux-gnu.so": library.read_bytes() + bytes([minor])
        for minor in (11, 12)
    }

    assert told(judged(tmp_path, files)) == []


@pytest.mark.parametrize(
    ("written", "severity"),
    [("py3-none-linux_x86_64", "note"), ("cp312-cp312-linux_x86_64", "error")],
)
def test_tells_tags_that_differ(tmp_path: Path, written: str, severity: str) -> None:
    wheel = write_wheel(tmp_path, {MEMBER: make_library(tmp_path / "made")}, name="pkg", tag=TAG)
    rewrite(wheel, tmp_path / "content", "WHEEL", TAG, written)

    (finding,) = told(audit_wheel(wheel))

    assert finding == f"{severity}: WHEEL: tag: the file name says {TAG}, WHEEL says {written}"


def test_notes_library_in_pure_wheel(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {MEMBER: make_library(tmp_path / "made")}, name="pkg", tag=TAG)
    rewrite(wheel, tmp_path / "content", "WHEEL", "Purelib: false", "Purelib: true")

    (finding,) = told(audit_wheel(wheel))

    assert finding.startswith("note: WHEEL: tag: Root-Is-Purelib isn't false")


def test_lets_licence_file_of_old_metadata_pass(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {}, name="pkg", tag="py3-none-any")
    old = "Metadata-Version: 2.4\n"
    new = "Metadata-Version: 2.1\nLicense-File: LICENSE\n"
    rewrite(wheel, tmp_path / "content", "METADATA", old, new)

    assert told(audit_wheel(wheel)) == []


def test_notes_path_of_build_machine(tmp_path: Path) -> None:
    code = f'const char *where(void) {{ return "/home/someone/src/a.cu"; }}\n{CODE}'
    library = make_library(tmp_path / "made", code=code)

    found = told(judged(tmp_path, {MEMBER: library}))

    assert found == [f"note: {MEMBER}: build path: it holds /home/someone/src/a.cu"]


def test_finds_copy_of_nvidias_library(tmp_path: Path) -> None:
    copy = make_library(tmp_path / "copy", flags=("-Wl,-soname,libcudart-1a2b3c4d.so.13",))
    name = "pkg.libs/libcudart-1a2b3c4d.so.13.0.96"

    result = judged(tmp_path, {name: copy})

    fact = "a library that belongs to another wheel is copied in"
    assert told(result) == [f"warning: {name}: grafted library: {fact}"]


def test_finds_copy_of_drivers_library(tmp_path: Path) -> None:
    copy = make_library(tmp_path / "copy", flags=("-Wl,-soname,libcuda.so.1",))

    (finding,) = told(judged(tmp_path, {"pkg.libs/libcuda-1a2b3c4d.so.1": copy}))

    assert finding.startswith("error: pkg.libs/libcuda-1a2b3c4d.so.1: grafted library: ")


def test_takes_nvidias_wheels_for_what_they_are(tmp_path: Path) -> None:
    library = make_library(tmp_path / "copy", flags=("-Wl,-soname,libcufft.so.12",))

    result = judged(tmp_path, {"nvidia/cu13/lib/libcufft.so.12": library}, name="nvidia_cufft")

    assert told(result) == []


def test_finds_metadata_that_index_refuses(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made")

    (finding,) = told(judged(tmp_path, {MEMBER: library}, requires=("not a requirement!",)))

    assert finding.startswith("warning: METADATA: metadata: ")


def test_lets_plain_python_wheel_pass(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {"pkg/__init__.py": b""}, name="pkg", tag="py3-none-any")

    assert told(audit_wheel(wheel)) == []
