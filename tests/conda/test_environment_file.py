"""environment.yml and virtual-packages.yml: what is asked for, and every way to write it wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from cuwheel.conda.environment_file import digest_of_input, name_of_lock, read_source
from cuwheel.errors import LockError
from tests.support.channel import SYSTEM, write_source

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "cuda130", "toy ==1.0")


def refused(source: Path) -> str:
    """Why a source can't be understood."""
    with pytest.raises(LockError, match="is invalid") as caught:
        read_source(source)
    assert "docs/how-to/toolchains.md" in caught.value.fix
    return caught.value.why


def change(source: Path, **fields: object) -> Path:
    """A source with other fields; None takes one out."""
    content = {**yaml.safe_load(source.read_text()), **fields}
    kept = {key: value for key, value in content.items() if value is not None}
    source.write_text(yaml.safe_dump(kept))
    return source


def test_reads_what_is_asked_for(tmp_path: Path) -> None:
    asked = ("toy ==1.0", "data >=2,<3", "any", "toy2 ==1.0 h1_0", "nvidia::cudnn ==9.0")

    assert read_source(write_source(tmp_path, *asked)).specs == asked


def test_reads_system_it_is_for(source: Path) -> None:
    assert dict(read_source(source).virtual) == SYSTEM


def test_passes_over_nodefaults(tmp_path: Path) -> None:
    """conda-lock's word for no other channels: there are none anyway."""
    source = write_source(tmp_path, "toy", channels=("conda-forge", "nodefaults"))

    assert read_source(source).channels == ("conda-forge",)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("environment.yml", "the conda lock next to it"),
        ("virtual-packages.yml", "doesn't depend on this machine"),
    ],
)
def test_names_file_that_is_missing(source: Path, name: str, why: str) -> None:
    source.with_name(name).unlink()

    with pytest.raises(LockError, match=f"{name} is missing") as caught:
        read_source(source)

    assert why in caught.value.why


@pytest.mark.parametrize("name", ["environment.yml", "virtual-packages.yml"])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "it is not valid YAML"),
        ("- a list", "not a mapping"),
        ("", "not a mapping"),
        ("a: \0", "not valid YAML"),
    ],
)
def test_names_file_that_is_no_mapping(source: Path, name: str, text: str, why: str) -> None:
    source.with_name(name).write_text(text)

    with pytest.raises(LockError) as caught:
        read_source(source)

    assert caught.value.what == f"cuda130/{name} is invalid"
    assert why in caught.value.why


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"channels": 7}, "`channels` is not a list of names"),
        ({"channels": []}, "`channels` is not a list of names"),
        ({"channels": None}, "`channels` is not a list of names"),
        ({"channels": [7]}, "`channels` is not a list of names"),
        ({"dependencies": None}, "`dependencies` is not a list of packages"),
        ({"dependencies": "toy"}, "`dependencies` is not a list of packages"),
        ({"dependencies": ["toy [x]"]}, "`toy [x]` is not a dependency"),
        ({"platforms": ["osx-64"]}, "`platforms` doesn't name linux-64"),
        ({"dependancies": []}, 'not a known key; did you mean "dependencies"?'),
        ({"category": "dev"}, "`category` is not a known key"),
    ],
)
def test_names_field_that_is_wrong(source: Path, fields: dict[str, object], why: str) -> None:
    assert why in refused(change(source, **fields))


def test_platforms_neednt_be_named(source: Path) -> None:
    before = read_source(source).digest

    assert read_source(change(source, platforms=None)).digest == before


def test_refuses_what_no_channel_has(source: Path) -> None:
    address = "https://example.invalid/noarch/toy-1-0.conda"

    why = refused(change(source, dependencies=["toy", {"pip": ["requests"]}, address]))

    assert "{'pip': ['requests']} is not a package of a channel" in why
    assert f"{address} is not a package of a channel" in why


@pytest.mark.parametrize(
    "channel",
    [
        "https://me:geheim@a.invalid/c",
        "https://a.invalid/t/geheim/c",
        "https://$geheim@a.invalid/c",
    ],
)
def test_refuses_secret_without_repeating_it(source: Path, channel: str) -> None:
    why = refused(change(source, channels=[channel]))

    assert "CUWHEEL_CONDA_MIRROR" in why
    assert "geheim" not in why


@pytest.mark.parametrize("comment", ["# [linux64]", "# [osx]", "# as in [1]"])
def test_refuses_selector(source: Path, comment: str) -> None:
    """To conda-lock such a comment may take the line out."""
    source.write_text(source.read_text().replace("- toy ==1.0", f"- toy ==1.0  {comment}"))

    assert "has a selector" in refused(source)


@pytest.mark.parametrize(
    "packages", [None, 7, {"glibc": "2.28"}, {"__glibc": 2.28}, {"__glibc": ""}, {1: "2"}]
)
def test_names_virtual_package_that_is_wrong(source: Path, packages: object) -> None:
    system = {"subdirs": {"linux-64": {"packages": packages}}}
    source.with_name("virtual-packages.yml").write_text(yaml.safe_dump(system))

    assert "virtual-packages.yml" in refused(source)


def test_names_all_that_is_wrong(source: Path) -> None:
    source.with_name("virtual-packages.yml").write_text("subdirs: {}")

    why = refused(change(source, channels=[], dependencies=["toy ="], platforms=[]))

    assert len(why.splitlines()) == 4


def test_comment_doesnt_change_digest(source: Path) -> None:
    before = digest_of_input(source)
    source.write_text(f"# why\n{source.read_text()}")

    assert digest_of_input(source) == before


@pytest.mark.parametrize(
    ("folder", "name"), [("cuda122", "toolchain:122:conda"), ("python312", "python:312")]
)
def test_names_lock_as_session_does(folder: str, name: str) -> None:
    assert name_of_lock(folder) == name
