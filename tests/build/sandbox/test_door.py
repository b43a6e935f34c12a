"""Every start of a package's code passes one door: `choose_sandbox`, then a place's `command`."""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.paths import ROOT, is_script
from cuwheel.build.recipe.nox_sessions import VERBS
from cuwheel.build.sandbox.backends import KINDS
from cuwheel.cli.container_build import request_inside
from cuwheel.cli.dispatch import COMMANDS, parser_of
from cuwheel.cli.target_choice import request_of

# A new verb belongs into one of these. The first run code of packages, themselves or by a build.
RUN_PACKAGES = {
    *("build", "day-zero", "get", "install", "matrix", "nightly", "perf", "profile", "rebuild"),
    *("smoke", "verify"),
}
RUN_NONE = {
    *("attestations", "audit", "bump", "cache", "completion", "completions", "docs", "explain"),
    *("help", "index", "init", "lock", "lock-check", "lock-verify", "mirror", "new", "outdated"),
    *("package", "pick", "release", "site", "slim", "toolchain", "torch-symbols", "trust"),
}
# What the caller has installed and runs every day, where the caller has it.
RUN_CALLERS_OWN = {"diagnose", "mcp"}

# Modules that start a process of a package's code, by a place's `command`.
STARTS_OF_PACKAGES = {
    "build/finish/smoke/probe.py",
    "build/pipeline/package_build/requirements.py",
    "build/pipeline/package_build/build_commands.py",
    "build/pipeline/checks.py",
    "build/pipeline/stages/environment.py",
    "check/diagnose/facts/probe.py",
    "lab/perf/probe_process.py",
    "lab/perf/upstream_tests.py",
}
# Modules that start programs of the machine, of toolchains, of locked tools, or cuwheel itself.
STARTS_OF_TOOLS = frozenset(
    """
    base/fetch/git.py
    base/system/compilers.py
    base/system/process.py
    base/system/pythons.py
    bootstrap.py
    build/compile/canary.py
    build/compile/framework_headers.py
    build/compile/toolkit_view.py
    build/drafts/updates/file_changes.py
    build/environments/uv.py
    build/finish/repair/tools.py
    build/finish/smoke/bytecode.py
    build/finish/smoke/hide_cuda.py
    build/inputs/checkouts.py
    build/sandbox/backends.py
    build/sandbox/containers/engine.py
    build/toolchains/conda/install.py
    build/toolchains/conda/write.py
    build/toolchains/cross/emulation.py
    build/toolchains/cuda_home.py
    build/toolchains/system_programs.py
    build/toolchains/debian/solve.py
    build/toolchains/driver_stub.py
    build/toolchains/pinned_compiler.py
    check/diagnose/facts/startup.py
    check/linkage/installed_loader.py
    cli/commands/maintain/checkout.py
    lab/matrix/building.py
    lab/matrix/github.py
    lab/matrix/slurm_job.py
    lab/nightly/nightly.py
    lab/nightly/page.py
    lab/nightly/recorder.py
    lab/perf/measured_wheel.py
    publish/rebuild/attest/sigstore.py
    publish/rebuild/commits.py
    publish/rebuild/compare/report.py
    publish/rebuild/builds.py
    publish/release/upload.py
    """.split()  # noqa: SIM905 - shorter than quotes around each
)
_STARTERS = {
    "attach",
    "run",
    "open_conversation",
    "Popen",
    "execv",
    "execve",
    "check_output",
    "system",
}


# What `starts` can find; to parse all modules takes seconds.
_MAY_START = re.compile(
    rf"\b(?:process|subprocess|os)\s*\.\s*(?:{'|'.join(_STARTERS)})\b"
    r"|from (?:cuwheel\.base\.system\.process|os) import"
)


def modules(having: str | re.Pattern[str] = "") -> Iterator[tuple[str, ast.Module]]:
    """Yield the engine's modules with a text, without scripts that other interpreters run."""
    for path in sorted((ROOT / "cuwheel").rglob("*.py")):
        name = path.relative_to(ROOT / "cuwheel").as_posix()
        if not is_script(path) and re.search(having, text := path.read_text()):
            yield name, ast.parse(text)


def starts(tree: ast.Module) -> bool:
    """Return True if a module starts a process, by our runner or Python's."""
    taken = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in {"cuwheel.base.system.process", "os"}
        for alias in node.names
        if alias.name in _STARTERS
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in taken:
            return True
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            owner = node.func.value.id
            if owner in {"process", "subprocess", "os"} and node.func.attr in _STARTERS:
                return True
    return False


def test_every_verb_is_classified() -> None:
    groups = (RUN_PACKAGES, RUN_NONE, RUN_CALLERS_OWN)

    assert sorted(name for group in groups for name in group) == sorted(COMMANDS)
    assert {verb.name for verb in VERBS} <= {*COMMANDS}


@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_who_runs_packages_takes_a_sandbox_and_has_one_by_default(verb: str) -> None:
    options = {
        flag: action for action in parser_of(verb)._actions for flag in action.option_strings
    }

    assert ("--sandbox" in options) == (verb in RUN_PACKAGES)
    if verb in RUN_PACKAGES:
        assert options["--sandbox"].default == "auto"
        assert tuple(options["--sandbox"].choices or ()) == ("auto", *KINDS)


def test_every_module_that_starts_processes_is_classified() -> None:
    """A new one has to be classified: a package's code is started by a place's `command`."""
    assert {name for name, tree in modules(_MAY_START) if starts(tree)} == (
        STARTS_OF_PACKAGES | STARTS_OF_TOOLS
    )


@pytest.mark.parametrize("name", sorted(STARTS_OF_PACKAGES))
def test_packages_are_started_by_a_places_command(name: str) -> None:
    tree = ast.parse((ROOT / "cuwheel" / name).read_bytes())

    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert attributes & {"command", "command_in"}


@pytest.mark.e2e
def test_only_places_make_a_sandbox() -> None:
    callers = {
        name
        for name, tree in modules("sandboxed")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "sandboxed"
    }

    assert callers == {
        "build/sandbox/backends.py",
        "build/sandbox/confinement.py",
        "build/sandbox/path_map.py",
    }


@pytest.mark.e2e
def test_only_the_caller_chooses_none() -> None:
    places = [f"{name}:{line}" for name, tree in modules() for line in _calls_with_none(tree)]

    assert places == []


def test_finds_calls_with_none(tmp_path: Path) -> None:
    """As `verify` did, and the trial of `install`."""
    path = tmp_path / "x.py"
    path.write_text('f(sandbox="none")\ng = ("--jobs", "1", "--sandbox", "none")\n')

    assert sorted(_calls_with_none(ast.parse(path.read_bytes()))) == [1, 2]


def _calls_with_none(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "sandbox":
            if isinstance(node.value, ast.Constant) and node.value.value == "none":
                yield node.value.lineno
        elif isinstance(node, ast.Tuple | ast.List):
            words = [action.value for action in node.elts if isinstance(action, ast.Constant)]
            if ("--sandbox", "none") in itertools.pairwise(words):
                yield node.lineno


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", ["build", "matrix", "nightly", "profile", "smoke", "verify"])
def test_what_starts_builds_elsewhere_hands_the_sandbox_on(verb: str, kind: str) -> None:
    """Each of matrix (and Slurm, by it), nightly and containers; `none` as well as a kind."""
    args = parser_of(verb).parse(["--sandbox", kind])

    request = request_of(args, Caller(os.environ), python=(), framework=None, platform=None)

    assert request_inside(request).argv("sandbox") == ("--sandbox", kind)
    assert [*itertools.pairwise(request.argv())].count(("--sandbox", kind)) == 1
