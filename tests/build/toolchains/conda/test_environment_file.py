"""environment.yml and virtual-packages.yml: requirements, and every error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from cuwheel.base import limits
from cuwheel.base.errors import LockError
from cuwheel.build.toolchains.conda.environment_file import (
    digest_of_input,
    match_spec,
    name_of_lock,
    read_source,
    read_yaml,
)
from tests.support.packages.bombs import IMPORTS, peak_of
from tests.support.toolchains.channel import SYSTEM, write_source
from tests.support.toolchains.conda_locks import SOURCES, read_with_conda_lock

_READ = """
from cuwheel.build.toolchains.conda.environment_file import read_yaml
try:
    read_yaml(Path(sys.argv[1]))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "cuda130", "toy ==1.0")


def refused(source: Path) -> str:
    """Return why a source is invalid."""
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


def test_reads_requirements(tmp_path: Path) -> None:
    specs = ("toy ==1.0", "data >=2,<3", "any", "toy2 ==1.0 h1_0", "nvidia::cudnn ==9.0")

    assert read_source(write_source(tmp_path, *specs)).specs == specs


def test_reads_system_it_is_for(source: Path) -> None:
    assert dict(read_source(source).virtual) == SYSTEM


def test_passes_over_nodefaults(tmp_path: Path) -> None:
    """conda-lock's name for no other channels, which there never are."""
    source = write_source(tmp_path, "toy", channels=("conda-forge", "nodefaults"))

    assert read_source(source).channels == ("conda-forge",)


@pytest.mark.parametrize("name", ["environment.yml", "virtual-packages.yml"])
def test_names_file_that_is_missing(source: Path, name: str) -> None:
    source.with_name(name).unlink()

    with pytest.raises(LockError, match=f"{name} is missing"):
        read_source(source)


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
    before = read_source(source).specs

    assert read_source(change(source, platforms=None)).specs == before


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


@pytest.mark.parametrize(
    ("line", "spec"),
    [
        ("toy", "toy"),
        ("Toy ==1.0", "toy ==1.0"),
        ("toy==1.0", "toy ==1.0"),
        ("toy 1.0", "toy ==1.0"),
        ("toy =1.0", "toy 1.0.*"),
        ("toy=1.0", "toy 1.0.*"),
        ("toy 1.0.*", "toy 1.0.*"),
        ("toy >=2,<3", "toy >=2,<3"),
        ("toy>=2|<1", "toy >=2|<1"),
        ("toy ==1.0 h1_0", "toy ==1.0 h1_0"),
        ("toy 1.0 h1_0", "toy ==1.0 h1_0"),
        ("toy =1.0 h1_0", "toy ==1.0 h1_0"),
        ("toy * *_cuda", "toy * *_cuda"),
        ("nvidia::_toy-x.y_z ==1!1.0+local", "nvidia::_toy-x.y_z ==1!1.0+local"),
    ],
)
def test_gives_rattler(line: str, spec: str) -> None:
    assert match_spec(line) == spec


@pytest.mark.parametrize(
    "line",
    [
        *("", "==1.0", "toy ==", "toy >=1, <2", "toy=1.0=h1_0", "toy[version='1']", "toy (>=1)"),
        *("toy 1.0 h1_0 more", "a/b::toy", "toy @ x", "toy 1.0\nother"),
    ],
)
def test_refuses(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(line) or "^$"):
        match_spec(line)


@pytest.mark.e2e
def test_reads_dependencies_as_conda_lock_does(conda_lock: Path, tmp_path: Path) -> None:
    lines = ("toy", "toy=1.0", "toy >=2|<1", "toy =1.0 h1_0", "toy !=1.0", "nvidia::toy ==9.0")
    own = [write_source(tmp_path / str(n), line) for n, line in enumerate(lines)]

    theirs = read_with_conda_lock(conda_lock, tmp_path, sources=[*own, *SOURCES])

    for source in (*own, *SOURCES):
        specs = [
            match_spec(" ".join(filter(None, (f"{channel}::" * bool(channel) + name, *more))))
            for name, *more, channel in theirs[str(source)]["dependencies"]
        ]
        assert read_source(source).specs == tuple(specs)


@pytest.mark.parametrize("bracket", ["[", "{a: ", "- "])
def test_brackets_without_end_are_an_error(tmp_path: Path, bracket: str) -> None:
    path = tmp_path / "conda-lock.yml"
    path.write_text(bracket * 200_000)

    output, memory = peak_of(_READ, path)

    assert f"YAMLError it nests more than {limits.NESTED} levels deep" in output
    assert memory < IMPORTS


def test_reads_what_nests_less(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text("[" * limits.NESTED + "]" * limits.NESTED)

    assert read_yaml(path) == yaml.load(path.read_bytes(), yaml.CSafeLoader)
