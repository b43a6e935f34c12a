from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import LockError
from cuwheel.build.toolchains.debian.source_file import name_of_lock, read_source

SOUND = {
    "suite": "bookworm",
    "components": "[main]",
    "architectures": "[arm64, amd64]",
    "packages": "[g++-12, libc6=2.36-9+deb12u10]",
}


def write(folder: Path, **changes: str) -> Path:
    path = folder / "debian.yml"
    lines = (f"{key}: {value}\n" for key, value in {**SOUND, **changes}.items() if value)
    path.write_text("".join(lines))
    return path


def test_reads_what_is_declared(tmp_path: Path) -> None:
    source = read_source(write(tmp_path))

    assert (source.suite, source.components) == ("bookworm", ("main",))
    assert source.architectures == ("amd64", "arm64")
    assert source.packages == ("g++-12", "libc6=2.36-9+deb12u10")
    assert source.has_dependencies


def test_digest_is_of_the_content(tmp_path: Path) -> None:
    path = write(tmp_path)
    before = read_source(path).input_digest

    path.write_text(f"# why\n{path.read_text()}")
    commented = read_source(path).input_digest
    changed = read_source(write(tmp_path, dependencies="false")).input_digest

    assert commented == before
    assert changed != before


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"suite": ""}, "`suite` is not a release's code name: None"),
        ({"suite": "../up"}, "`suite` is not a release's code name: '../up'"),
        ({"suite": "12"}, "`suite` is not a release's code name: 12"),
        ({"components": "main"}, "`components` is not a list of names"),
        ({"components": "[]"}, "`components` is not a list of names"),
        ({"components": "['main; x']"}, "`components` has an invalid name: 'main; x'"),
        ({"architectures": "[x86_64]"}, "`architectures` has an invalid name: 'x86_64'"),
        ({"architectures": "[amd64, amd64]"}, "`architectures` has a name twice"),
        ({"packages": "['--yes']"}, "`packages` has an invalid name: '--yes'"),
        ({"packages": "[gcc-]"}, "`packages` has an invalid name: 'gcc-'"),
        ({"packages": "[12]"}, "`packages` has an invalid name: 12"),
        ({"packages": "['a= ']"}, "`packages` has an invalid name: 'a= '"),
        ({"dependencies": "some"}, "`dependencies` is neither true nor false"),
        ({"package": "[a]"}, '`package` is not a known key; did you mean "packages"?'),
        ({"suite": "[a"}, "it is not valid YAML"),
    ],
)
def test_names_what_is_wrong(tmp_path: Path, changes: dict[str, str], fact: str) -> None:
    with pytest.raises(LockError) as caught:
        read_source(write(tmp_path, **changes))

    assert fact in caught.value.why


def test_names_all_faults_at_once(tmp_path: Path) -> None:
    with pytest.raises(LockError) as caught:
        read_source(write(tmp_path, suite="A", components="1", packages="2"))

    assert len(caught.value.why.splitlines()) == 3


def test_reports_missing_file(tmp_path: Path) -> None:
    with pytest.raises(LockError, match=r"debian\.yml is missing"):
        read_source(tmp_path / "debian.yml")


@pytest.mark.parametrize(
    ("folder", "name"),
    [("cuda124", "toolchain:124:debian"), ("gcc12", "host-compiler:gcc12")],
)
def test_lock_is_named_by_its_folder(folder: str, name: str) -> None:
    assert name_of_lock(folder) == name
