"""A page's commands, run as a reader types them, one after the other in one shell.

A block of `console` holds commands behind `$ ` and lines that they print; `…` stands for anything.
A block of another language below a line that is only a path in code and `:` is that file. What
stands below a paragraph that begins with `**Not run here` is left out, up to the end of that
section.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

NOT_RUN = "**Not run here"

_BLOCK = re.compile(
    r"(?:^`(?P<file>[^`\n]+)`:\n\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_MARK = "@command "  # begins a line of standard output behind which a command's own follows


@dataclass(frozen=True, kw_only=True)
class Step:
    """A file to write or a command to run.

    Attributes:
        section: the heading that it stands below.
        command: a line of shell.
        printed: lines that it has to print, in this order and perhaps with others between.
    """

    section: str
    command: str
    printed: tuple[str, ...] = ()


def steps_of(page: str) -> tuple[Step, ...]:
    """What a page does, without what it says isn't run."""
    found: list[Step] = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE):
        title = section.partition("\n")[0]
        for block in _BLOCK.finditer(section.partition(NOT_RUN)[0]):
            if block["language"] == "console":
                found += _commands(title, block["text"])
            elif block["file"]:
                name = shlex.quote(block["file"])
                text = f"cat > {name} <<'END OF FILE'\n{block['text']}END OF FILE"
                found.append(Step(section=title, command=text))
    return tuple(found)


def _commands(section: str, block: str) -> Iterable[Step]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *printed = part.splitlines()
        yield Step(section=section, command=command, printed=tuple(printed))


def walk_through(steps: Iterable[Step], folder: Path, env: Mapping[str, str], *start: str) -> None:
    """Run steps in a folder; fail where one fails or doesn't print what the page says.

    Args:
        steps: of a page.
        folder: where the reader is at first.
        env: variables of the shell.
        start: a command that the shell is started by.
    """
    steps = tuple(steps)
    script = "".join(
        f"echo '{_MARK}{one}'\n{step.command}\n[ $? = 0 ] || exit 1\n"
        for one, step in enumerate(steps)
    )
    done = subprocess.run(
        [*start, "bash"],
        cwd=folder,
        env=env,
        input=script,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    parts = re.split(rf"^{_MARK}\d+\n", done.stdout, flags=re.MULTILINE)[1:]
    said = f"$ {steps[len(parts) - 1].command}\n{parts[-1]}" if parts else done.stdout
    assert done.returncode == 0, said
    for step, output in zip(steps, parts, strict=True):
        assert missing_lines(step.printed, output) == [], f"$ {step.command}\n{output}"


def missing_lines(printed: Iterable[str], output: str) -> list[str]:
    """Lines of a page that a command didn't print behind those before them."""
    lines, lost = [_plain(line) for line in output.splitlines()], []
    for line in printed:
        pattern = ".*".join(map(re.escape, _plain(line).split("…")))
        at = next((at for at, one in enumerate(lines) if re.fullmatch(pattern, one)), None)
        if at is None:
            lost.append(line)
        else:
            del lines[: at + 1]
    return lost


def _plain(line: str) -> str:
    """Without the widths of columns."""
    return " ".join(line.split())


def plain_environment(home: Path, **variables: str) -> dict[str, str]:
    """This process's, without what starts cuwheel or an environment, and another home."""
    own = ("PYTHON", "CUWHEEL_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return kept | {"HOME": str(home), "COLUMNS": "200", "NO_COLOR": "1", **variables}
