"""What of the engine counts for the rebuild key: what a build runs, and nothing else."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import grimp
import pytest

from cuwheel.build.engine_code import code_of_builds, digest_of_code
from cuwheel.paths import ROOT
from cuwheel.pipeline import STAGES
from cuwheel.system.process import run

if TYPE_CHECKING:
    from pathlib import Path

ROOTS = ("cuwheel.pipeline", *(f"cuwheel.stages.{name}" for name in STAGES))


@pytest.fixture(scope="module")
def counted() -> frozenset[str]:
    """The modules that count, by name."""
    return frozenset(module_of(path) for path in code_of_builds() if path.suffix == ".py")


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """An engine whose one stage imports a module when it runs."""
    write(tmp_path, "__init__.py")
    write(tmp_path, "pipeline.py")
    write(tmp_path, "stages/__init__.py")
    write(tmp_path, "stages/build.py", "def build():\n    from cuwheel.compile import link\n")
    write(tmp_path, "compile/__init__.py")
    write(tmp_path, "compile/link.py", "link = 1\n")
    write(tmp_path, "compile/other.py", "other = 1\n")
    return tmp_path


def write(root: Path, name: str, text: str = "") -> None:
    path = root / "cuwheel" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root / "cuwheel")) for path in code_of_builds(root)}


def test_counts_each_module_that_a_build_imports(counted: frozenset[str]) -> None:
    graph = grimp.build_graph("cuwheel", exclude_type_checking_imports=True, cache_dir=None)

    reached = {one for root in ROOTS for one in graph.find_upstream_modules(root)} | set(ROOTS)

    assert reached - counted == set()


def test_counts_what_the_interpreter_has_then(counted: frozenset[str]) -> None:
    code = f"import sys, {', '.join(ROOTS)}; print(*(n for n in sys.modules if n[:7] == 'cuwheel'))"

    said = run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)}).output.split()

    assert set(said) - counted == set()


def test_counts_each_script_that_a_build_starts() -> None:
    files = code_of_builds()
    called = {
        ROOT / "cuwheel" / "standalone" / name
        for path in files
        if path.suffix == ".py"
        for name in re.findall(r'script\("([\w./]+)"\)', path.read_text())
    }

    assert called
    assert called - set(files) == set()


@pytest.mark.parametrize("room", ["cli", "diagnose", "matrix", "nightly", "perf", "updates"])
def test_leaves_out_what_no_build_runs(counted: frozenset[str], room: str) -> None:
    assert [name for name in counted if name.startswith(f"cuwheel.{room}.")] == []


def test_follows_an_import_in_a_function(engine: Path) -> None:
    assert "compile/link.py" in names(engine)


def test_leaves_out_a_neighbour_of_what_is_imported(engine: Path) -> None:
    assert "compile/other.py" not in names(engine)


def test_leaves_out_what_only_the_type_checker_reads(engine: Path) -> None:
    text = "if TYPE_CHECKING:\n    from cuwheel.compile.other import other\n\nx = 1\n"
    write(engine, "pipeline.py", text)

    assert "compile/other.py" not in names(engine)


def test_counts_a_module_that_is_started(engine: Path) -> None:
    write(engine, "pipeline.py", 'command = ("-m", "cuwheel.compile.other")\n')

    assert "compile/other.py" in names(engine)


def test_counts_every_script_of_a_folder(engine: Path) -> None:
    write(engine, "pipeline.py", '_ENTER = script("launcher/start.py")\n')
    for name in ("__init__.py", "launcher/start.py", "launcher/rewrite.py", "launcher/filter.bpf"):
        write(engine, f"standalone/{name}")

    assert {f"standalone/launcher/{name}" for name in ("rewrite.py", "filter.bpf")} < names(engine)


@pytest.mark.parametrize(("changed", "same"), [("link", False), ("other", True)])
def test_a_change_counts_where_a_build_runs_it(
    engine: Path,
    changed: str,
    same: bool,  # noqa: FBT001 - a table's column
) -> None:
    before = digest_of_code(code_of_builds(engine), engine)

    write(engine, f"compile/{changed}.py", "changed = 1\n")

    assert (digest_of_code(code_of_builds(engine), engine) == before) is same
