"""The rules for the wheel as a whole, each with the defect planted that it is there for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.audit.verdict import audit_wheel
from cuwheel.wheel.archive import pack, unpack_wheel
from tests.support.factories import EPOCH, write_wheel
from tests.support.planted import CODE, MEMBER, TAG, judged, make_library, rewrite, told

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

    fact = "it opens libnvrtc-builtins.so.12.* by name, but the wheel has no file of that name"
    assert (f"error: {nvrtc}: grafted library: {fact}" in found) is is_torn


@pytest.mark.parametrize(
    ("tag", "severity"),
    [
        ("cp310-abi3", "warning"),
        ("py3-none", "warning"),
        ("cp310.cp312-none", "warning"),
        ("cp312-cp312", "error"),  # no Python that it is installed for can import it
        ("cp310-cp310", ""),
    ],
)
def test_finds_module_for_another_python(tmp_path: Path, tag: str, severity: str) -> None:
    library = make_library(tmp_path / "made", code=_MODULE)
    name = "pkg/ext.cpython-310-x86_64-linux-gnu.so"

    found = told(judged(tmp_path, {name: library}, tag=f"{tag}-manylinux_2_39_x86_64"))

    fact = "only Python 3.10 can import it, but the tag is"
    said = [line.partition(":")[0] for line in found if f": {name}: tag: {fact}" in line]
    assert said == [severity] * bool(severity)


@pytest.mark.parametrize(
    ("name", "module", "fact"),
    [
        ("ext.cpython-312-x86_64-linux-gnu", "other", "calls PyInit_ext, but it has PyInit_other"),
        ("ext.abi3", "ext2", "calls PyInit_ext, but it has PyInit_ext2"),
        (
            "ext.cpython-312-aarch64-linux-gnu",
            "ext",
            "but it is for EM_X86_64: no Python can import it",
        ),
    ],
)
def test_finds_module_that_nothing_imports(
    tmp_path: Path, name: str, module: str, fact: str
) -> None:
    library = make_library(tmp_path / "made", code=_MODULE.replace("_ext", f"_{module}"))

    found = told(judged(tmp_path, {f"pkg/{name}.so": library}, tag=TAG.replace("py3", "cp312")))

    assert any(line.startswith(f"error: pkg/{name}.so: library") and fact in line for line in found)


@pytest.mark.parametrize("name", ["ext.cpython-312-x86_64-linux-gnu", "ext.abi3"])
@pytest.mark.parametrize("code", [_MODULE, CODE], ids=["module", "loaded by torch.ops"])
def test_lets_module_be_that_has_its_name(tmp_path: Path, name: str, code: str) -> None:
    library = make_library(tmp_path / "made", code=code)

    found = told(judged(tmp_path, {f"pkg/{name}.so": library}))

    assert not any(": library: " in line for line in found)


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "it has the name of a library, but is empty"),
        (b"no library\n", "it has the name of a library, but is not an ELF file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "it is a Git LFS pointer"),
    ],
)
def test_finds_what_is_only_called_a_library(tmp_path: Path, content: bytes, fact: str) -> None:
    found = told(judged(tmp_path, {"pkg/libx.so.1": content}))

    assert any(line.startswith(f"error: pkg/libx.so.1: library: {fact}") for line in found)


@pytest.mark.parametrize(
    "content", [b"/* GNU ld script */\nINPUT(-lx)\n", b"\xcf\xfa\xed\xfe", b"!<arch>\n"]
)
def test_lets_other_kinds_of_library_be(tmp_path: Path, content: bytes) -> None:
    found = told(judged(tmp_path, {"pkg/libx.so": content}))

    assert not any(": library: " in line for line in found)


@pytest.mark.parametrize(
    ("member", "old", "new", "finding"),
    [
        ("WHEEL", f"Tag: {TAG}", "Tag: py3-none", "WHEEL: tag: WHEEL has the tag py3-none"),
        ("WHEEL", f"Tag: {TAG}", "Tag:", "WHEEL: tag: WHEEL has the tag (nothing)"),
        ("WHEEL", f"Tag: {TAG}", "Tag: py3--any", "WHEEL: tag: WHEEL has the tag py3--any"),
        ("WHEEL", "Version: 1.0", "Version: 9.0", "WHEEL: archive: Wheel-Version is 9.0"),
        ("WHEEL", "Wheel-Version: 1.0\n", "", "WHEEL: archive: Wheel-Version is missing"),
    ],
)
def test_finds_what_installers_refuse(
    tmp_path: Path, member: str, old: str, new: str, finding: str
) -> None:
    wheel = write_wheel(tmp_path, {MEMBER: b"#"}, name="pkg", tag=TAG)
    rewrite(wheel, tmp_path / "unpacked", member, old, new)

    assert any(line.startswith(f"error: {finding}") for line in told(audit_wheel(wheel)))


@pytest.mark.parametrize(
    ("required", "is_found"),
    [
        (">=3.13", True),
        ("<3.12", True),
        (">=3.12.4", False),
        ("==3.12.3", False),
        ("==3.12.*", False),
        ("", False),
    ],
)
def test_finds_python_that_the_tag_has_and_the_metadata_leaves_out(
    tmp_path: Path, required: str, *, is_found: bool
) -> None:
    tag = "cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64"
    wheel = write_wheel(tmp_path, {}, name="pkg", tag=tag)
    line = f"Requires-Python: {required}\n" if required else ""
    rewrite(wheel, tmp_path / "unpacked", "METADATA", "Version: 1.2.3\n", f"Version: 1.2.3\n{line}")

    found = told(audit_wheel(wheel))

    assert any("error: METADATA: metadata: Requires-Python is" in one for one in found) is is_found


@pytest.mark.parametrize(
    "platform",
    ["musllinux_1_2_x86_64", "win_amd64", "macosx_11_0_arm64", "macosx_10_13_universal2"],
)
def test_judges_no_library_of_other_systems(tmp_path: Path, platform: str) -> None:
    library = make_library(tmp_path / "made", "libcudart.so.13", "libc.musl-x86_64.so.1")

    result = judged(tmp_path, {MEMBER: library}, tag=f"cp312-cp312-{platform}")

    [line] = told(result)
    assert line.startswith("note: pkg-1.2.3-cp312-cp312-")
    assert f"the tag is for {platform}: its libraries weren't checked" in line
    assert (result.majors, result.supplies, result.min_driver) == ((), (), ())


def test_finds_libraries_behind_tag_for_any_system(tmp_path: Path) -> None:
    """As bitsandbytes 0.42.0: installers of every system take it."""
    library = make_library(tmp_path / "made")

    (line,) = told(judged(tmp_path, {MEMBER: library}, tag="py3-none-any"))

    fact = "the tag includes every system, but the wheel has libraries for Linux"
    assert line == f"warning: pkg-1.2.3-py3-none-any.whl: platform tag: {fact}"


def test_finds_metadata_that_is_no_utf8(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {}, name="pkg", tag=TAG)
    folder = tmp_path / "unpacked"
    folder.mkdir()
    unpack_wheel(wheel, folder)
    path = folder / "pkg-1.2.3.dist-info" / "METADATA"
    path.write_bytes(path.read_bytes() + "Möller\n".encode("latin-1"))
    pack(folder, wheel, epoch=EPOCH)

    found = told(audit_wheel(wheel))

    assert "error: pkg-1.2.3.dist-info/METADATA: archive: it isn't UTF-8" in found


def test_finds_folder_of_data_that_nobody_installs(tmp_path: Path) -> None:
    found = told(judged(tmp_path, {"pkg-1.2.3.data/lib/x.txt": b"", "pkg-1.2.3.data/data/y": b""}))

    [line] = [one for one in found if ".data/" in one]
    assert line.startswith("error: pkg-1.2.3.data/lib: archive: installers don't know this folder")


def test_finds_module_for_free_threaded_python(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", code=_MODULE)
    name = "pkg/ext.cpython-314t-x86_64-linux-gnu.so"

    found = told(judged(tmp_path, {name: library}, tag="cp313-cp313t-manylinux_2_39_x86_64"))

    assert any("only Python 3.14 can import it" in line for line in found)


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

    assert finding == f"{severity}: WHEEL: tag: the file name has {TAG}, WHEEL has {written}"


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

    assert found == [f"note: {MEMBER}: build path: it contains /home/someone/src/a.cu"]


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
