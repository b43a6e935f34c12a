"""Tools of the Model Context Protocol: the commands that only read, with their JSON as the answer.

Each call runs the command in a process of its own, as `--json` on a command line does: a crash, or
what a package prints while `diagnose` imports it, can't damage the protocol on standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from cuwheel.base.caller import Caller
from cuwheel.base.paths import ROOT
from cuwheel.version import __version__

_LONGEST = 600.0  # seconds of a call: an audit of the largest wheels takes one minute
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=False)  # the caller's own Python
_ASKS_INDEXES = ToolAnnotations(read_only_hint=True, open_world_hint=True)
_OF_FILES = (".txt", ".toml", ".whl")  # ends of names that no package has
_OF_LOGS = (".log", ".txt")
_ABOUT = (
    "Facts about CUDA wheels for Python, from their files and from this machine. Relative paths "
    "are those of the folder that the server was started in."
)
_Wheels = Annotated[list[str], Field(description="paths of .whl files, or of folders with them")]
_Packages = Annotated[list[str], Field(description="names; default: all with code for GPUs")]
_Python = Annotated[
    str, Field(description="an interpreter, or an environment's folder; default: the active one")
]
_Log = Annotated[str, Field(description="the text of a log, not its path")]
_Path = Annotated[str, Field(description="path of a log, in place of its text")]
_Wanted = Annotated[
    list[str],
    Field(description="names, each with limits of its version if any: flash-attn>=2.8"),
]
_Machine = Annotated[
    str,
    Field(description="another machine: python=3.12,torch=2.11,cuda=13.0,arch=90,driver=580.65"),
]
_Indexes = Annotated[
    list[str], Field(description="addresses or folders to look in; default: the configured ones")
]


def make_server(caller: Caller) -> MCPServer[Any]:
    """Return the server; its tools see the caller's variables and folder."""
    server: MCPServer[Any] = MCPServer(
        "cuwheel", version=__version__, instructions=_ABOUT, log_level="CRITICAL"
    )

    async def audit(wheels: _Wheels) -> dict[str, Any]:
        """Check CUDA wheels: what is wrong, for which GPUs they have code, the oldest driver."""
        return await _answer(caller, "audit", wheels)

    async def diagnose(packages: _Packages | None = None, python: _Python = "") -> dict[str, Any]:
        """Import a Python environment's GPU packages, and say why those fail that don't work."""
        return await _answer(caller, "diagnose", packages or [], *_options(python=python))

    async def explain(log: _Log = "", path: _Path = "") -> dict[str, Any]:
        """Say why a build, install or import failed, and the fix."""
        _check_log(caller, log, path)
        return await _answer(caller, "explain", [path or "-"], text=log)

    async def pick(
        packages: _Wanted,
        machine: _Machine = "",
        python: _Python = "",
        indexes: _Indexes | None = None,
    ) -> dict[str, Any]:
        """Name the wheels that fit this machine, or another; of several packages, together."""
        if files := [name for name in packages if "/" in name or name.endswith(_OF_FILES)]:
            raise ToolError(f"{files[0]} is not a package; give the names that the file holds")
        options = _options(**{"for": machine}, python=python)
        addresses = [f"--index={address}" for address in indexes or ()]
        return await _answer(caller, "pick", packages, *options, *addresses)

    for tool, hints in (
        (audit, _READS),
        (diagnose, _RUNS),
        (explain, _READS),
        (pick, _ASKS_INDEXES),
    ):
        server.tool(annotations=hints)(tool)
    return server


def _check_log(caller: Caller, log: str, path: str) -> None:
    """Raise ToolError for a log that is neither a text nor a file."""
    if bool(log) == bool(path):
        raise ToolError("give either `log`, the text, or `path`, a file with it")
    if log and "\n" not in log.strip() and (log.endswith(_OF_LOGS) or caller.path(log).exists()):
        raise ToolError("`log` is the text of a log; give the path of a file as `path`")
    if path and not (caller.path(path).is_file() or caller.path(path).is_dir()):
        raise ToolError(f"there is no file or folder {path}")


def _options(**values: str) -> list[str]:
    """Return the options that have a value, each in one word: a value can't become an option."""
    return [f"--{name}={value}" for name, value in values.items() if value]


async def _answer(
    caller: Caller, command: str, names: Sequence[str], *options: str, text: str = ""
) -> dict[str, Any]:
    """Run a command and return its document; raises ToolError where it could not answer."""
    if wrong := [name for name in names if name.startswith("-") and name != "-"]:
        raise ToolError(f"{wrong[0]} is an option, not a name; write a path as ./{wrong[0]}")
    argv = [sys.executable, "-m", "cuwheel", command, *options, "--json", *names]
    content = text.encode(errors="replace")  # JSON may hold half a surrogate pair
    environ = {**caller.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    try:
        with anyio.fail_after(_LONGEST):
            done = await anyio.run_process(
                argv,
                input=content,
                check=False,
                env=environ,
                cwd=caller.path("."),
            )
    except TimeoutError:
        raise ToolError(f"{command} gave no answer in {_LONGEST:.0f} s") from None
    return _document(command, done.returncode, done.stdout, done.stderr)


def _document(command: str, status: int, output: bytes, errors: bytes) -> dict[str, Any]:
    """Return the document in a command's output; an error's becomes a ToolError."""
    try:
        document: dict[str, Any] = json.loads(output)
    except ValueError:
        last = errors.decode(errors="replace").strip()[-2000:]
        raise ToolError(f"{command} ended with status {status}: {last}") from None
    if document["schema"] == "error":
        raise ToolError("\n".join(f"{name}: {document[name]}" for name in ("what", "why", "fix")))
    return document
