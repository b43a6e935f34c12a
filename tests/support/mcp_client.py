"""Client of `cuwheel mcp`, run by the Python of its environment: calls from JSON, answers as JSON.

Standard input has a list of `[tool, arguments]`; None as the tool lists the tools.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
from mcp import ClientSession, StdioServerParameters, stdio_client


async def main() -> None:
    """Make the calls one after another, in one session."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "cuwheel", "mcp"], env=dict(os.environ)
    )
    async with stdio_client(server) as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        answers = [await _answer(client, *call) for call in json.load(sys.stdin)]
    json.dump(answers, sys.stdout)


async def _answer(client: Any, tool: str | None, arguments: dict[str, Any]) -> Any:
    if tool is None:
        tools = (await client.list_tools()).tools
        return {one.name: one.annotations.read_only_hint for one in tools}
    result = await client.call_tool(tool, arguments)
    text = "\n".join(part.text for part in result.content)
    return {"failed": result.is_error, "text": text, "document": result.structured_content}


if __name__ == "__main__":
    anyio.run(main)
