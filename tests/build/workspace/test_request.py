"""A build's request becomes arguments, and arguments the same request."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.pythons import own_python
from cuwheel.build.recipe.platform import AARCH64, X86_64, own_platform
from cuwheel.build.recipe.recipe import Framework
from cuwheel.build.toolchains.cross.target_root import TARGET_ROOT
from cuwheel.build.workspace.request import OPTIONS, BuildRequest, Shard, read_count, read_shard
from cuwheel.cli.dispatch import parser_of
from cuwheel.cli.target_choice import output_folders, read_request, request_of
from tests.support.factories import make_target

_EXCLUSIVE = ("quiet", "verbose")
OTHER = AARCH64 if own_platform() == X86_64 else X86_64


def random_request(seed: int) -> BuildRequest:
    """A request with a random choice of options, each with a random value that it can have."""
    source = random.Random(seed)
    chosen = source.sample(sorted(OPTIONS), source.randint(0, len(OPTIONS)))
    values = {name: _value(name, source) for name in chosen if name != source.choice(_EXCLUSIVE)}
    if values.keys() >= {*_EXCLUSIVE}:
        del values["quiet"]
    return BuildRequest(targets=("tiny-130", "other-122"), **values)


def _value(name: str, source: random.Random) -> Any:
    option = OPTIONS[name]
    value = option.metadata["value"]
    if not value:
        return True
    if value.startswith("{"):
        return source.choice(value.strip("{}").split(","))
    if name in {"work", "dist", "source", "target_root"}:
        return Path("/some/folder with spaces") / name
    if name == "shard":
        return Shard(source.randint(1, 8), source.randint(8, 64))
    if option.metadata["read"]:
        return source.randint(1, 64)
    text = source.choice(("3.12", "90", "a b", "torch==2.11.0"))
    return (text, "3.14") if isinstance(option.default, tuple) else text


@pytest.mark.parametrize("seed", range(60))
def test_arguments_give_the_same_request(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TARGET_ROOT, raising=False)
    request = random_request(seed)

    assert read_request(request.argv(), Caller(os.environ)) == request


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_each_option_is_passed_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TARGET_ROOT, raising=False)
    request = BuildRequest(**{name: _value(name, random.Random(name))})

    assert request != BuildRequest()
    assert read_request(request.argv(name), Caller(os.environ)) == request


def test_defaults_need_no_argument() -> None:
    assert BuildRequest().argv() == ()
    assert BuildRequest(targets=("tiny-130",), arch=("90",)).argv("arch") == ("--arch", "90")


def test_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUWHEEL_INVOKED_FROM", str(tmp_path))
    monkeypatch.setenv(TARGET_ROOT, "root")
    args = parser_of("build").parse(["x-130", "--work", "w", "--python", "bin/python"])

    request = request_of(args, Caller(os.environ))

    assert (request.work, request.target_root) == (tmp_path / "w", tmp_path / "root")
    assert request.python == (str(tmp_path / "bin" / "python"),)
    assert output_folders(request, Caller({})) == (tmp_path / "w", ROOT / "dist")


def test_python_is_named_to_another_one() -> None:
    request = BuildRequest(python=("3.11",))

    assert request.with_python() == request
    assert BuildRequest().with_python().python == (own_python().release,)


# Commands that build, and the usual options of a build that they can't have, with the reason.
_BUILDERS = {
    "build": (),
    "profile": (),
    "matrix": ("source",),  # is for one recipe
    # What its cells are decides it, for this machine.
    "nightly": ("framework", "source", "link", "toolchain", "platform", "target_root"),
    "verify": ("dist",),  # compares wheels in folders of its own
    # The provenance has the others.
    "rebuild": ("python", "arch", "platform", "framework", "link", "toolchain", "dist"),
    # The environment decides it; the index is needed to find no wheel.
    "install": (
        *("arch", "platform", "target_root", "framework", "source", "link", "toolchain", "offline"),
    ),
}
_USUAL = (
    *("python", "arch", "platform", "target_root", "framework", "source", "link", "toolchain"),
    *("work", "offline", "any_driver", "jobs", "dist", "sandbox"),
)


@pytest.mark.parametrize("verb", _BUILDERS)
def test_every_command_that_builds_takes_the_same_options(verb: str) -> None:
    missing = {*_USUAL} - {action.dest for action in parser_of(verb).described}

    assert missing == {*_BUILDERS[verb]}


@pytest.mark.parametrize("text", ["0", "-1", "x", "²"])
def test_refuses_what_is_no_number_of_compiles(text: str) -> None:
    with pytest.raises(UsageError, match="is not a positive number"):
        read_request([f"--jobs={text}"], Caller(os.environ))
    assert read_count("7") == 7
    assert read_request(["--jobs", "auto"], Caller(os.environ)) == replace(
        BuildRequest(), jobs=None
    )


@pytest.mark.parametrize(
    ("changes", "compiler"),
    [
        ({}, "gcc10"),
        ({"provider": "debian"}, "gcc10"),
        ({"provider": "redist", "toolkit": "12.2"}, "gcc10"),
        ({"provider": "conda"}, "system"),
        ({"framework": Framework(name="torch", version="2.12.1")}, "gcc10"),
        ({"framework": Framework(name="torch", version="2.13.0")}, "gcc12"),
        ({"oldest_gcc": 11}, "gcc12"),
        ({"platform": OTHER}, "system"),
    ],
)
def test_usual_compiler_follows_from_the_target(changes: dict[str, Any], compiler: str) -> None:
    target = make_target(**changes)

    assert BuildRequest().compiler_for(target) == compiler


@pytest.mark.parametrize("requested", ["system", "gcc12"])
def test_requested_compiler_is_taken(requested: str) -> None:
    request = BuildRequest(host_compiler=requested)

    assert request.compiler_for(make_target(provider="debian")) == requested


def test_image_has_its_own_compiler() -> None:
    request = BuildRequest(container="image@sha256:0")

    assert request.compiler_for(make_target()) == "system"


def test_conda_toolchain_takes_no_other_compiler() -> None:
    with pytest.raises(UsageError, match="--host-compiler gcc10 can't be used with a conda"):
        BuildRequest(host_compiler="gcc10").compiler_for(make_target(provider="conda"))


def test_pinned_compilers_compile_for_their_own_kind_of_machine() -> None:
    with pytest.raises(UsageError, match="can't compile for"):
        BuildRequest(host_compiler="gcc12").compiler_for(make_target(platform=OTHER))


@pytest.mark.parametrize(
    "text", ["0/4", "5/4", "a/b", "4", "1/0", "-1/4", "1/2/3", "1/1001", "²/4"]
)
def test_refuses_what_is_no_shard(text: str) -> None:
    with pytest.raises(UsageError, match="--shard"):
        parser_of("build").parse(["tiny-130", "--shard", text])


@pytest.mark.parametrize("other", ["--no-cache", "--stage=build", "--until=build", "--dry-run"])
def test_shard_excludes(other: str) -> None:
    with pytest.raises(UsageError, match=f"--shard and {other.partition('=')[0]} can't"):
        parser_of("build").parse(["tiny-130", "--shard", "1/4", other])


def test_reads_a_shard() -> None:
    assert read_shard("3/16") == Shard(3, 16)
