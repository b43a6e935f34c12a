"""The engine's modules that count for the rebuild key: those that a build runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import grimp
import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import run
from cuwheel.build.pipeline.engine_code import code_of_builds, digest_of_code
from cuwheel.build.workspace.records import STAGES

ROOTS = (
    "cuwheel.build.pipeline.pipeline",
    *(f"cuwheel.build.pipeline.stages.{name}" for name in STAGES),
)


@pytest.fixture(scope="module")
def counted() -> frozenset[str]:
    """The modules that count, by name."""
    return frozenset(module_of(path) for path in code_of_builds() if path.suffix == ".py")


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """An engine with one stage that imports a module when it runs."""
    write(tmp_path, "__init__.py")
    write(tmp_path, "build/pipeline/pipeline.py")
    write(tmp_path, "build/pipeline/stages/__init__.py")
    write(
        tmp_path,
        "build/pipeline/stages/build.py",
        "def build():\n    from cuwheel.compile import link\n",
    )
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

    reached = {module for root in ROOTS for module in graph.find_upstream_modules(root)}
    reached |= set(ROOTS)

    assert reached - counted == set()


def test_counts_what_the_interpreter_has_then(counted: frozenset[str]) -> None:
    code = f"import sys, {', '.join(ROOTS)}; print(*sys.modules)"

    loaded = run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)}).output.split()

    assert {name for name in loaded if name.startswith("cuwheel")} - counted == set()
    assert not {"pypi_simple", "bs4"} & {*loaded}, "what reads pages takes a second to load"


def test_counts_each_script_that_a_build_starts() -> None:
    files = code_of_builds()
    called = {
        ROOT / "cuwheel" / name
        for path in files
        if path.suffix == ".py"
        for name in re.findall(r'\bscript\("([\w./]+)"\)', path.read_text())
    }

    assert called
    assert called - set(files) == set()


@pytest.mark.parametrize("room", ["cli", "check.diagnose", "lab", "publish", "build.drafts"])
def test_leaves_out_what_no_build_runs(counted: frozenset[str], room: str) -> None:
    assert [name for name in counted if name.startswith(f"cuwheel.{room}.")] == []


_FOR_TYPES = "if TYPE_CHECKING:\n    from cuwheel.compile.other import other\n\nx = 1\n"


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", False),
        (_FOR_TYPES, False),
        ('command = ("-m", "cuwheel.compile.other")\n', True),
    ],
    ids=["a neighbour of what is imported", "for types alone", "started"],
)
def test_counts_what_a_build_runs(text: str, counts: bool, engine: Path) -> None:  # noqa: FBT001
    """Imports in functions too."""
    write(engine, "build/pipeline/pipeline.py", text)

    assert "compile/link.py" in names(engine)
    assert ("compile/other.py" in names(engine)) is counts


def test_counts_every_script_of_a_folder(engine: Path) -> None:
    write(
        engine, "build/pipeline/pipeline.py", '_ENTER = script("build/compile/launcher/start.py")\n'
    )
    for name in ("__init__", "compile/__init__", "compile/launcher/__init__"):
        write(engine, f"build/{name}.py")
    for name in ("start.py", "rewrite.py", "filter.bpf"):
        write(engine, f"build/compile/launcher/{name}")

    files = {f"build/compile/launcher/{name}" for name in ("rewrite.py", "filter.bpf")}
    assert files < names(engine)


@pytest.mark.parametrize(("changed", "same"), [("link", False), ("other", True)])
def test_a_change_counts_where_a_build_runs_it(
    engine: Path,
    changed: str,
    same: bool,  # noqa: FBT001 - a table's column
) -> None:
    before = digest_of_code(code_of_builds(engine), engine)

    write(engine, f"compile/{changed}.py", "changed = 1\n")

    assert (digest_of_code(code_of_builds(engine), engine) == before) is same
