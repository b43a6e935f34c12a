"""Examples and exit codes that `--help` shows, for the commands that people type most."""

from __future__ import annotations

from collections.abc import Sequence

from cuwheel.base.errors import EXIT_CODES
from cuwheel.base.spelling import as_typed, is_console_script

# What stands after `--`, and what it does.
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "audit": (
        ("dist/", "all wheels of a folder"),
        ("--fail-on error flash_attn-2.8.3-cp312-cp312-linux_x86_64.whl", "ignore warnings"),
    ),
    "build": (("flash-attn --framework torch==2.11.0 --arch 90", "for one framework and GPU"),),
    "diagnose": (
        ("", "the active environment"),
        ("--python .venv flash-attn", "one package of another environment"),
    ),
    "explain": (
        ("build.log", "a file"),
        ("wrong-result", "an entry of TROUBLESHOOTING.md"),
    ),
    "get": (("flash-attn xformers --to .venv", "an environment with both"),),
    "install": (("causal-conv1d-130", "the newest wheel that fits"),),
    "matrix": (("build --only 'flash-attn*'", "build what is missing"),),
    "new": (("torch-scatter", "from its sdist"),),
    "perf": (("--wheel new.whl --against old.whl", "compare two wheels"),),
    "pick": (
        ("'flash-attn>=2.8'", "for this machine"),
        ("flash-attn --for python=3.12,torch=2.11,cuda=13.0,arch=90", "for another"),
        ("flash-attn xformers --lock pylock.toml", "together, pinned"),
    ),
    "slim": (("torch-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl --arch 90", "for one GPU"),),
}
_OF = EXIT_CODES
# What a script may want to tell apart.
STATUSES: dict[str, dict[int, str]] = {
    "audit": {_OF["audit"]: "errors", _OF["audit-warning"]: "warnings, no errors"},
    "build": {
        _OF["preflight"]: "it can't be built here",
        _OF["build-failed"]: "the package's own build failed",
        _OF["audit"]: "the wheel has errors",
        _OF["smoke"]: "the wheel can't be imported",
    },
    "diagnose": {1: "warnings, with --fail-on warning", 2: "something doesn't work"},
    "matrix": {_OF["cells-failed"]: "some wheels were not built"},
    "perf": {
        _OF["gpu"]: "no usable GPU",
        _OF["wrong-result"]: "wrong results",
        _OF["probe"]: "the probe, or a case, failed",
        _OF["slower"]: "slower",
        _OF["undecided"]: "undecided",
    },
    "get": {
        _OF["install"]: "the environment could not be made",
        _OF["smoke"]: "a package can't be imported",
        _OF["no-fitting-wheel"]: "no wheels fit together",
    },
    "pick": {
        1: "no known wheel fits",
        _OF["download"]: "no index has it, or none answers",
    },
}


def closing_text(session: str) -> str:
    """Return examples and exit codes of a session, `build-<target>` too; empty: it has none."""
    session = session.removesuffix("-<target>")
    statuses = {0: "done", _OF["usage"]: "wrong command line", **STATUSES.get(session, {})}
    examples = [
        (as_typed(f"nox -s {session} -- {words}".removesuffix(" -- ")), text)
        for words, text in EXAMPLES.get(session, ())
    ]
    parts = [_rows("examples", examples)] if examples else []
    if session in STATUSES:
        rows = [(str(status), statuses[status]) for status in sorted(statuses)]
        of_nox = "" if is_console_script() else " (nox itself exits with 1)"
        parts.append(_rows(f"exit status{of_nox}", rows))
    return "\n\n".join(parts)


def _rows(title: str, rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(first) for first, _ in rows) + 2
    return "\n".join([f"{title}:", *(f"  {first:{width}}{text}" for first, text in rows)])
