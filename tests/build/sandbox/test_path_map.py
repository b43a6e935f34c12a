from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.sandbox.backends import choose_sandbox
from cuwheel.build.sandbox.path_map import Named, Places
from cuwheel.system.process import run

SOURCE = Named(name="source", real=Path("/w/tree/x"), kind="write", has_sources=True)
TMP = Named(name="tmp", real=Path("/w"), kind="write", has_sources=True)
HOME = Named(name="home", real=Path("/w/home"))


def places(*named: Named, sandbox: str = "none") -> Places:
    return Places(named=named, sandbox=sandbox)


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("/w/tree/x", "/cuwheel/source"),
        ("-I/w/tree/x/include:/w/home", "-I/cuwheel/source/include:/cuwheel/home"),
        ("/w/tree/xy", "/cuwheel/tmp/tree/xy"),
        ("/w-2 /w.old /w+", "/w-2 /w.old /w+"),
        ("'/w'", "'/cuwheel/tmp'"),
        ("", ""),
    ],
)
def test_names_folders_the_longest_first(text: str, public: str) -> None:
    assert places(TMP, SOURCE, HOME).public(text) == public


def test_names_a_folder_with_odd_name() -> None:
    odd = Named(name="source", real=Path("/a (b)+[c]"))

    assert places(odd).public("/a (b)+[c]/x") == "/cuwheel/source/x"


@pytest.mark.parametrize(("sandbox", "seen"), [("none", "/w/home"), ("unshare", "/cuwheel/home")])
def test_build_sees_names_in_a_sandbox(sandbox: str, seen: str) -> None:
    assert places(HOME, sandbox=sandbox).seen("/w/home") == seen


def test_maps_folders_with_sources_the_longest_last() -> None:
    """GCC takes the last that fits."""
    made = places(SOURCE, HOME, TMP).maps

    assert made == (("/w", "/cuwheel/tmp"), ("/w/tree/x", "/cuwheel/source"))


def test_a_sandbox_needs_no_maps() -> None:
    assert places(SOURCE, sandbox="bubblewrap").maps == ()


@pytest.mark.parametrize("asked", ["none", "auto"])
def test_command_runs_where_it_is_told(asked: str, tmp_path: Path) -> None:
    real = tmp_path / "a folder"
    real.mkdir()
    kind = choose_sandbox(asked)
    made = places(Named(name="tmp", real=real, kind="write"), sandbox=kind)

    words = made.command(["sh", "-c", f'pwd; echo text > "{real}/file"'], real)

    said = run(words, env={"PATH": "/usr/bin:/bin"}, cwd=real).output
    assert said == f"{real if kind == 'none' else '/cuwheel/tmp'}\n"
    assert (real / "file").read_text() == "text\n"


def test_a_mere_name_is_not_mounted(tmp_path: Path) -> None:
    kind = choose_sandbox()
    if kind == "none":
        pytest.skip("this system gives no sandbox")
    (tmp_path / "lost").mkdir()
    made = places(
        Named(name="source", real=tmp_path),
        Named(name="x", real=tmp_path / "lost", kind="name"),
        sandbox=kind,
    )

    said = run(made.command(["ls", "/cuwheel"], tmp_path), env={"PATH": "/usr/bin:/bin"}).output

    assert said == "source\n"
