"""The rules for names, tags and metadata, each with its defect."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.formats.wheel.archive import pack, unpack_wheel
from cuwheel.check.audit.verdict import audit_wheel
from tests.support.factories import EPOCH, write_wheel
from tests.support.packages.defective_wheels import (
    CODE,
    MEMBER,
    TAG,
    audited_library,
    breaches,
    files_breaches,
    library_breaches,
    make_library,
    rewrite,
)

_MODULE = "void *PyInit_ext(void) { return 0; }\n"


@pytest.mark.parametrize(
    ("module", "tag", "severity"),
    [
        ("310", "cp310-abi3", "warning"),
        ("310", "py3-none", "warning"),
        ("310", "cp310.cp312-none", "warning"),
        ("310", "cp312-cp312", "error"),  # no Python that it is installed for can import it
        ("310", "cp310-cp310", ""),
        ("314t", "cp313-cp313t", "error"),
    ],
)
def test_finds_module_for_another_python(
    tmp_path: Path, module: str, tag: str, severity: str
) -> None:
    name = f"pkg/ext.cpython-{module}-x86_64-linux-gnu.so"

    findings = library_breaches(
        tmp_path, code=_MODULE, member=name, tag=f"{tag}-manylinux_2_39_x86_64"
    )

    expected = [(severity, "tag", name)] if severity else []
    assert [item for item in findings if item[1:] == ("tag", name)] == expected


def test_modules_for_several_pythons_pass(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", code=_MODULE)
    files: dict[str, Path | bytes] = {
        f"pkg/ext.cpython-3{minor}-x86_64-linux-gnu.so": library.read_bytes() + bytes([minor])
        for minor in (11, 12)
    }

    assert files_breaches(tmp_path, files) == []


@pytest.mark.parametrize(
    ("name", "code", "is_valid"),
    [
        ("ext.cpython-312-x86_64-linux-gnu", _MODULE.replace("_ext", "_other"), False),
        ("ext.abi3", _MODULE.replace("_ext", "_ext2"), False),
        ("ext.cpython-312-aarch64-linux-gnu", _MODULE, False),
        ("ext.cpython-312-x86_64-linux-gnu", _MODULE, True),
        ("ext.abi3", _MODULE, True),
        ("ext.cpython-312-x86_64-linux-gnu", CODE, True),  # loaded by torch.ops
        ("ext.abi3", CODE, True),
    ],
)
def test_finds_module_that_can_not_be_imported(
    tmp_path: Path, name: str, code: str, *, is_valid: bool
) -> None:
    member, tag = f"pkg/{name}.so", TAG.replace("py3", "cp312")

    findings = library_breaches(tmp_path, code=code, member=member, tag=tag)

    assert (("error", "library", member) in findings) is not is_valid


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (f"Tag: {TAG}", "Tag: py3-none", "tag"),
        (f"Tag: {TAG}", "Tag:", "tag"),
        (f"Tag: {TAG}", "Tag: py3--any", "tag"),
        ("Version: 1.0", "Version: 9.0", "archive"),
        ("Wheel-Version: 1.0\n", "", "archive"),
    ],
)
def test_finds_reason_of_installers_to_refuse(
    tmp_path: Path, old: str, new: str, rule: str
) -> None:
    wheel = write_wheel(tmp_path, {MEMBER: b"#"}, name="pkg", tag=TAG)
    rewrite(wheel, tmp_path / "unpacked", "WHEEL", old, new)

    assert ("error", rule, "WHEEL") in breaches(audit_wheel(wheel))


@pytest.mark.parametrize(
    ("required", "is_excluded"),
    [
        (">=3.13", True),
        ("<3.12", True),
        (">=3.12.4", False),
        ("==3.12.3", True),  # and none of the later 3.12
        ("==3.12.*", False),
        ("", False),
    ],
)
def test_finds_python_of_the_tag_that_metadata_excludes(
    tmp_path: Path, required: str, *, is_excluded: bool
) -> None:
    tag = "cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64"
    wheel = write_wheel(tmp_path, {}, name="pkg", tag=tag)
    line = f"Requires-Python: {required}\n" if required else ""
    rewrite(wheel, tmp_path / "unpacked", "METADATA", "Version: 1.2.3\n", f"Version: 1.2.3\n{line}")

    assert (("error", "metadata", "METADATA") in breaches(audit_wheel(wheel))) is is_excluded


@pytest.mark.parametrize(
    "platform",
    ["musllinux_1_2_x86_64", "win_amd64", "macosx_11_0_arm64", "macosx_10_13_universal2"],
)
def test_checks_no_library_of_other_systems(tmp_path: Path, platform: str) -> None:
    sonames, tag = ("libcudart.so.13", "libc.musl-x86_64.so.1"), f"cp312-cp312-{platform}"

    result = audited_library(tmp_path, *sonames, tag=tag, flags=("-nostdlib",))

    assert breaches(result) == [("note", "platform tag", f"pkg-1.2.3-{tag}.whl")]
    assert (result.majors, result.supplies, result.min_driver) == ((), (), ())


def test_finds_libraries_under_tag_for_any_system(tmp_path: Path) -> None:
    """As bitsandbytes 0.42.0: installers of every system take it."""
    findings = library_breaches(tmp_path, tag="py3-none-any")

    assert findings == [("warning", "platform tag", "pkg-1.2.3-py3-none-any.whl")]


@pytest.mark.parametrize(
    ("stem", "is_refused"),
    [("gk-hy-1.0+cu130.b", True), ("Gk.Hy-1.0+cu130.b", False), ("gk_hy-1.0+cu130-b", False)],
)
def test_reads_folder_of_metadata_as_pip(tmp_path: Path, stem: str, *, is_refused: bool) -> None:
    wheel = write_wheel(tmp_path, {MEMBER: b"#"}, name="gk_hy", version="1.0+cu130.b", tag=TAG)
    folder = tmp_path / "unpacked"
    folder.mkdir()
    unpack_wheel(wheel, folder)
    (folder / "gk_hy-1.0+cu130.b.dist-info").rename(folder / f"{stem}.dist-info")
    pack(folder, wheel, epoch=EPOCH)

    findings = breaches(audit_wheel(wheel))

    assert (("error", "name", f"{stem}.dist-info") in findings) == is_refused


def test_finds_metadata_that_is_not_utf8(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {}, name="pkg", tag=TAG)
    folder = tmp_path / "unpacked"
    folder.mkdir()
    unpack_wheel(wheel, folder)
    path = folder / "pkg-1.2.3.dist-info" / "METADATA"
    path.write_bytes(path.read_bytes() + "Möller\n".encode("latin-1"))
    pack(folder, wheel, epoch=EPOCH)

    findings = breaches(audit_wheel(wheel))

    assert ("error", "archive", "pkg-1.2.3.dist-info/METADATA") in findings


@pytest.mark.parametrize(
    ("member", "old", "new", "expected"),
    [
        ("WHEEL", TAG, "py3-none-linux_x86_64", [("note", "tag", "WHEEL")]),
        ("WHEEL", TAG, "cp312-cp312-linux_x86_64", [("warning", "tag", "WHEEL")]),
        ("WHEEL", "Purelib: false", "Purelib: true", [("note", "tag", "WHEEL")]),
        ("METADATA", "Version: 2.4\n", "Version: 2.1\nLicense-File: LICENSE\n", []),
    ],
    ids=["less in WHEEL", "other tag", "pure", "early licence field"],
)
def test_checks_metadata(
    tmp_path: Path, member: str, old: str, new: str, expected: list[tuple[str, str, str]]
) -> None:
    wheel = write_wheel(tmp_path, {MEMBER: make_library(tmp_path / "made")}, name="pkg", tag=TAG)
    rewrite(wheel, tmp_path / "content", member, old, new)

    assert breaches(audit_wheel(wheel)) == expected


@pytest.mark.parametrize(
    ("entry", "severity"), [("$ORIGIN/../other/lib", "warning"), ("$ORIGIN", "note")]
)
def test_pure_wheel_loses_other_wheels(tmp_path: Path, entry: str, severity: str) -> None:
    code = "void *PyInit_m(void) { return 0; }\n"
    module = make_library(tmp_path / "made", code=code, flags=(f"-Wl,-rpath,{entry}",))
    wheel = write_wheel(
        tmp_path, {"pkg/m.abi3.so": module}, name="pkg", tag="cp312-abi3-linux_x86_64"
    )
    rewrite(wheel, tmp_path / "content", "WHEEL", "Purelib: false", "Purelib: true")

    assert (severity, "tag", "WHEEL") in breaches(audit_wheel(wheel))


def test_finds_metadata_that_index_refuses(tmp_path: Path) -> None:
    findings = library_breaches(tmp_path, requires=("not a requirement!",))

    assert findings == [("error", "metadata", "METADATA")]


def test_plain_python_wheel_passes(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {"pkg/__init__.py": b""}, name="pkg", tag="py3-none-any")

    assert breaches(audit_wheel(wheel)) == []


@pytest.mark.parametrize(
    ("kind", "text", "is_valid"),
    [
        ("text/x-rst", ".. nope:: x\n", False),
        ("", "# Title\n\n```\ncode\n```\n\n`a <b`_\n", False),  # read as reStructuredText
        ("text/x-rst", "Title\n=====\n", True),
        ("text/markdown", ".. nope:: x\n", True),
        ("", "", True),
    ],
)
def test_finds_description_that_index_does_not_show(
    tmp_path: Path, kind: str, text: str, *, is_valid: bool
) -> None:
    files: dict[str, Path | bytes] = {"pkg/__init__.py": b""}
    wheel = write_wheel(tmp_path, files, name="pkg", tag="py3-none-any")
    stated = f"Description-Content-Type: {kind}\n" if kind else ""
    rewrite(wheel, tmp_path / "content", "METADATA", "\nA text.\n", f"{stated}\n{text}")

    findings = breaches(audit_wheel(wheel))

    assert findings == ([] if is_valid else [("warning", "metadata", "METADATA")])
