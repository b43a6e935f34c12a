"""Tools of the Model Context Protocol: the commands that only read, with their JSON as the answer.

Each call runs the command in a process of its own, as `--json` on a command line does: a crash, or
what a package prints while `diagnose` imports it, can't damage the protocol on standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from cuwheel.base.caller import Caller
from cuwheel.base.paths import ROOT
from cuwheel.version import __version__

_LONGEST = 600.0  # seconds of a call: an audit of the largest wheels takes one minute
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_ASKS_INDEXES = ToolAnnotations(read_only_hint=True, open_world_hint=True)
_ABOUT = (
    "Facts about CUDA wheels for Python, from their files and from this machine. Relative paths "
    "are those of the folder that the server was started in."
)


def make_server(caller: Caller) -> MCPServer[Any]:
    """Return the server; its tools see the caller's variables and folder."""
    server: MCPServer[Any] = MCPServer("cuwheel", version=__version__, instructions=_ABOUT)

    async def audit(wheels: list[str]) -> dict[str, Any]:
        """Check CUDA wheels (files, or folders of them): what is wrong, archs, oldest driver."""
        return await _answer(caller, "audit", wheels)

    async def diagnose(packages: list[str] | None = None, python: str = "") -> dict[str, Any]:
        """Import a Python environment's GPU packages, and say why those fail that don't work.

        `python` is an interpreter or an environment's folder; default: the active environment.
        """
        return await _answer(caller, "diagnose", packages or [], *_options(python=python))

    async def explain(log: str = "", path: str = "") -> dict[str, Any]:
        """Say why a build, install or import failed, and the fix: from a log's text or file."""
        if bool(log) == bool(path):
            raise ToolError("give either `log`, the text, or `path`, a file with it")
        return await _answer(caller, "explain", [path or "-"], text=log)

    async def pick(
        package: str, machine: str = "", python: str = "", indexes: list[str] | None = None
    ) -> dict[str, Any]:
        """Name the wheel of a package that fits this machine, or another, or say why none does.

        `package` may limit versions, `flash-attn>=2.8`; `machine` describes another one,
        `python=3.12,torch=2.11,cuda=13.0,arch=90`.
        """
        options = _options(**{"for": machine}, python=python)
        asked = [f"--index={address}" for address in indexes or ()]
        return await _answer(caller, "pick", [package], *options, *asked)

    for tool in (audit, diagnose, explain):
        server.tool(annotations=_READS)(tool)
    server.tool(annotations=_ASKS_INDEXES)(pick)
    return server


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
    environ = {**caller.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    try:
        with anyio.fail_after(_LONGEST):
            done = await anyio.run_process(
                argv, input=text.encode(), check=False, env=environ, cwd=caller.path(".")
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
