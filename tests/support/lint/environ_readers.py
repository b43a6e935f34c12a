"""What in the engine reads the variables of its process, which `base/caller.py` reads for all.

`python -m tests.support.lint.environ_readers` prints what isn't allowed: a part of `nox -s lint`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from cuwheel.base.paths import ROOT, is_script

# All else gets a `Caller`, or its variables, from whoever calls it. Scripts that another
# interpreter runs by path (`base/paths.SCRIPT_FOLDERS`) are processes of their own.
READERS = {
    # Where a command begins.
    "base/caller": "reads them once",
    "__main__": "the entry of each command",
    "bootstrap": "starts the engine in its environment; it runs before that is there",
    "cli/dispatch": "the entry of a command that a program calls",
    "entry": "the console script; it sets what the engine's process inherits",
    "under_nox": "the noxfile's part, in nox's process",
    # Of the process, whoever called it.
    "base/fetch/indexes/pages": "settings of the network, which `requests` reads there too",
    "base/fetch/retry": "likewise",
    "base/fetch/store": "likewise",
    "base/spelling": "how the command was typed, for any message",
    "base/system/console": "a step of GitHub Actions",
    "base/system/files": "the temporary folder, as `tempfile` finds it",
    "base/system/output/terminal": "the terminal's width, and a step of GitHub Actions",
    "base/system/process": "what helpers such as git inherit",
    "build/workspace/masking/public_text": "secrets are masked whatever was handed to it",
    "cli/reference/completions": "sets how commands are typed in what it generates",
    "lab/matrix/slurm_job": "a job's own process; submitit hands its process's to sbatch",
}
_READING = ("environ", "environb", "getenv", "putenv", "unsetenv")
_CALLER = "read_caller"
_OWN_NAME = Path(__file__).name


def offences() -> list[str]:
    """Modules that read the variables by themselves, and exceptions that don't."""
    readers = {name for name, tree in _modules() if any(map(_reads, ast.walk(tree)))}
    return [
        f"cuwheel/{name}.py reads this process's variables: see tests/support/lint/{_OWN_NAME}"
        for name in sorted(readers ^ READERS.keys())
    ]


def is_offence(code: str) -> bool:
    """Whether a statement reads the variables."""
    return any(map(_reads, ast.walk(ast.parse(code))))


def _modules() -> Iterator[tuple[str, ast.Module]]:
    engine = ROOT / "cuwheel"
    for path in sorted(engine.rglob("*.py")):
        name = path.relative_to(engine).with_suffix("").as_posix()
        if not name.startswith("cli/starter/") and not is_script(Path(name)):
            yield name, ast.parse(path.read_text())


def _reads(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        names = {alias.name for alias in node.names}
        return _CALLER in names or (node.module == "os" and bool(names & {*_READING}))
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        and node.attr in _READING
    )


if __name__ == "__main__":
    sys.exit("\n".join(offences()) or None)
