from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.system.process import run
from cuwheel.build.sandbox.backends import choose_sandbox
from cuwheel.build.sandbox.path_map import BuildPath, PathMap
from tests.support.requirements import require

SOURCE = BuildPath(name="source", real=Path("/w/tree/x"), kind="write", has_sources=True)
TMP = BuildPath(name="tmp", real=Path("/w"), kind="write", has_sources=True)
HOME = BuildPath(name="home", real=Path("/w/home"))


def path_map(*named: BuildPath, sandbox: str = "none") -> PathMap:
    return PathMap(named=named, sandbox=sandbox)


@pytest.mark.parametrize(
    ("text", "neutral"),
    [
        ("/w/tree/x", "/cuwheel/source"),
        ("-I/w/tree/x/include:/w/home", "-I/cuwheel/source/include:/cuwheel/home"),
        ("/w/tree/xy", "/cuwheel/tmp/tree/xy"),
        ("/w-2 /w.old /w+", "/w-2 /w.old /w+"),
        ("'/w'", "'/cuwheel/tmp'"),
        ("", ""),
    ],
)
def test_names_folders_the_longest_first(text: str, neutral: str) -> None:
    assert path_map(TMP, SOURCE, HOME).neutral(text) == neutral


def test_names_a_folder_with_odd_name() -> None:
    odd = BuildPath(name="source", real=Path("/a (b)+[c]"))

    assert path_map(odd).neutral("/a (b)+[c]/x") == "/cuwheel/source/x"


@pytest.mark.parametrize(("sandbox", "inside"), [("none", "/w/home"), ("unshare", "/cuwheel/home")])
def test_build_sees_names_in_a_sandbox(sandbox: str, inside: str) -> None:
    assert path_map(HOME, sandbox=sandbox).inside("/w/home") == inside


def test_maps_folders_with_sources_the_longest_last() -> None:
    """GCC takes the last that fits."""
    result = path_map(SOURCE, HOME, TMP).maps

    assert result == (("/w", "/cuwheel/tmp"), ("/w/tree/x", "/cuwheel/source"))


def test_a_sandbox_needs_no_maps() -> None:
    assert path_map(SOURCE, sandbox="bubblewrap").maps == ()


@pytest.mark.parametrize("wanted", ["none", "auto"])
def test_command_runs_in_its_folder(wanted: str, tmp_path: Path) -> None:
    real = tmp_path / "a folder"
    real.mkdir()
    kind = choose_sandbox(wanted)
    result = path_map(BuildPath(name="tmp", real=real, kind="write"), sandbox=kind)

    words = result.command(["sh", "-c", f'pwd; echo text > "{real}/file"'], real)

    output = run(words, env={"PATH": "/usr/bin:/bin"}, cwd=real).output
    assert output == f"{real if kind == 'none' else '/cuwheel/tmp'}\n"
    assert (real / "file").read_text() == "text\n"


def test_a_mere_name_is_not_mounted(tmp_path: Path) -> None:
    require("sandbox", "that a build can't see a folder that is only a name")
    kind = choose_sandbox()
    (tmp_path / "lost").mkdir()
    result = path_map(
        BuildPath(name="source", real=tmp_path),
        BuildPath(name="x", real=tmp_path / "lost", kind="name"),
        sandbox=kind,
    )

    output = run(result.command(["ls", "/cuwheel"], tmp_path), env={"PATH": "/usr/bin:/bin"}).output

    assert output == "source\n"
