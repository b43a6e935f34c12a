"""The sessions: `nox -l` is the manual. Their code is in the package `cuwheel`."""

from __future__ import annotations

import glob
import os
import sys
import tempfile

if sys.version_info < (3, 10):  # noqa: UP036 - nox runs on older ones
    sys.exit(
        "cuwheel: this nox runs on Python {}.{}, but cuwheel runs on and builds for 3.10 or "
        "newer: install nox there (`python3.12 -m pip install nox`), and start it with "
        "`python3.12 -m nox`".format(*sys.version_info)
    )

import nox

ROOT = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs start-up
sys.path.insert(0, ROOT)  # nox doesn't

from cuwheel.under_nox import (  # noqa: E402
    add_sessions,
    run,
    run_command,
    shows_help,
    tell_unknown,
)

nox.needs_version = ">=2024.4.15"
nox.options.sessions = ("tests", "lint")

BENCHMARKS = (
    *("audit", "builds", "determinism", "diagnose", "elf", "explain", "first-minute", "index"),
    *("known-sources", "memory", "pick", "shards", "start"),
)
# 4 on 2 cores, as tests wait for two fifths of their time; a module's tests stay together, as they
# share what it has compiled.
FAST = ("-n", "4", "--dist", "worksteal")
# A file's tests share what they build; the first files take longest.
LONG = ("-n", "4", "--dist", "loadfile", "--no-loadscope-reorder", "--durations=40")
# Starts a program of the environment, which finds others there first: actionlint shellcheck.
_PROGRAM = """import os, sys, sysconfig
folder = sysconfig.get_path("scripts")
os.environ["PATH"] = folder + os.pathsep + os.environ["PATH"]
os.execv(os.path.join(folder, sys.argv[1]), sys.argv[1:])
"""

add_sessions("site")


@nox.session(tags=["test"])
def tests(session: nox.Session) -> None:
    """Run the tests that take minutes at most."""
    run(session, "dev", "-m", "pytest", *FAST, *session.posargs)


@nox.session(name="tests-e2e", tags=["test"])
def tests_e2e(session: nox.Session) -> None:
    """Run the long tests: whole builds, kills, machines without a network."""
    run(session, "dev", "-m", "pytest", *LONG, "-m", "e2e and not nightly", *session.posargs)


@nox.session(name="tests-nightly", tags=["test"])
def tests_nightly(session: nox.Session) -> None:
    """Run the tests for a release: upstream's sources, others' wheels, an empty cache."""
    run(session, "dev", "-m", "pytest", *LONG, "-m", "nightly", *session.posargs)
    if not session.posargs:
        with tempfile.TemporaryDirectory() as cache:
            run(session, "dev", "-m", "pytest", *FAST, CUWHEEL_CACHE=cache)


@nox.session(tags=["test"])
def fuzz(session: nox.Session) -> None:
    """Feed corrupted files to all parsers: [-- --fuzz-minutes 30 --fuzz-seed 7]."""
    run(session, "dev", "-m", "pytest", *FAST, "-m", "nightly", "tests/fuzz", *session.posargs)


@nox.session(tags=["maintain"])
def site(session: nox.Session) -> None:
    """Write docs/ as a site, check its links: [-- DIR], public/docs."""
    with tempfile.TemporaryDirectory() as scratch:
        source, built, seen = (f"{scratch}/{name}" for name in ("source", "built", "seen"))
        run_command(session, "site", "--source", source)
        if not os.path.exists(source):  # noqa: PTH110 - as ROOT; the options were asked for
            return
        strict = ("--fail-on-warning", "--keep-going", "--quiet", "--doctree-dir", seen)
        run(session, "site", "-m", "sphinx", *strict, source, built)
        run_command(session, "site", "--built", built)


@nox.session(tags=["maintain"])
def bench(session: nox.Session) -> None:
    """Measure, side by side in one run: -- builds, shards, memory, audit, elf, start."""
    kind, *rest = session.posargs or ("",)
    if shows_help(session, "|".join(BENCHMARKS)):
        return
    if kind not in BENCHMARKS:
        session.error(f"choose what to measure: nox -s bench -- {'|'.join(BENCHMARKS)}")
    run(session, "dev", "-m", f"bench.{kind.replace('-', '_')}", *rest)


@nox.session(tags=["test"])
def lint(session: nox.Session) -> None:
    """Check style, types, layers, workflows and locks."""
    if shows_help(session, "[options of lock-check]"):
        return
    run(session, "dev", "-m", "ruff", "check")
    run(session, "dev", "-m", "ruff", "format", "--check")
    run(session, "dev", "-m", "mypy")
    run(session, "dev", "-m", "tests.support.lint.environ_readers")
    run(session, "dev", "-m", "tests.support.lint.file_readers")
    run(session, "dev", "-m", "tests.support.lint.plain_words")
    run(session, "dev", "-c", "from importlinter import cli; cli.lint_imports_command()")
    workflows = sorted(glob.glob(f"{ROOT}/.github/workflows/*.yml"))  # noqa: PTH207 - as ROOT
    starters = sorted(glob.glob(f"{ROOT}/cuwheel/cli/starter/github/*/*.yml"))  # noqa: PTH207
    workflows += starters
    actions = sorted(glob.glob(f"{ROOT}/ci/*/action.yml"))  # noqa: PTH207 - as ROOT
    forms = sorted(glob.glob(f"{ROOT}/.github/ISSUE_TEMPLATE/*.yml"))  # noqa: PTH207 - as ROOT
    for kind, files in (
        ("github-workflows", workflows),
        ("github-actions", actions),
        ("github-issue-forms", [one for one in forms if not one.endswith("/config.yml")]),
        ("github-issue-config", [one for one in forms if one.endswith("/config.yml")]),
        ("dependabot", [f"{ROOT}/.github/dependabot.yml"]),
        ("citation-file-format", [f"{ROOT}/CITATION.cff"]),
    ):
        schema = ("--builtin-schema", f"vendor.{kind}")
        run(session, "dev", "-m", "check_jsonschema", *schema, *files)
    run(session, "dev", "-m", "pre_commit", "validate-config", f"{ROOT}/.pre-commit-config.yaml")
    run(session, "dev", "-m", "pre_commit", "validate-manifest", f"{ROOT}/.pre-commit-hooks.yaml")
    run(session, "dev", "-c", _PROGRAM, "actionlint", "-pyflakes", "", *workflows)
    run(
        session,
        "dev",
        "-c",
        _PROGRAM,
        "zizmor",
        "--offline",
        "--pedantic",
        ".github/workflows",
        *starters,
        *actions,
    )
    run_command(session, "lock-check")


tell_unknown()
