"""Trials of `explain`: a failure is made, the printed fix typed, and the command tried again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_CODE = re.compile(r"`([^`]+)`")
# Settings of the user by which pip and uv find their index.
_KEPT = re.compile(r"PIP_|UV_|SSL_CERT_|REQUESTS_CA_BUNDLE$|https?_proxy$|no_proxy$", re.IGNORECASE)
# What stands before each script: `only` leaves these programs on PATH, `venv` starts an environment
# with the pip and the setuptools of the tests, `wheel NAME VERSION CODE METADATA` writes a wheel
# into `dist`, with module.so where there is one.
_FUNCTIONS = f"""
only() {{
    mkdir -p bin
    for name; do ln -sf "$(readlink -f "$(command -v "$name")")" "bin/$name"; done
    export PATH=$PWD/bin
}}
venv() {{
    if [ ! -e .env ]; then
        uv venv -q --offline --python {sys.executable} .env
        echo {sysconfig.get_paths()["purelib"]} > tests.pth
        mv tests.pth .env/lib/python3*/site-packages/
        printf '#!/bin/sh\\nexec python -m pip "$@"\\n' > .env/bin/pip && chmod +x .env/bin/pip
    fi
    . .env/bin/activate
}}
wheel() {{
    python3 - "$@" <<'END'
import pathlib, sys, zipfile
name, version, code, *metadata = sys.argv[1:]
native = pathlib.Path("module.so")
tag = "py3-none-linux_x86_64" if native.exists() else "py3-none-any"
info = f"{{name}}-{{version}}.dist-info"
files = {{
    f"{{name}}.py": code,
    f"{{info}}/METADATA": "\\n".join(
        ("Metadata-Version: 2.1", f"Name: {{name}}", f"Version: {{version}}", *metadata, "")
    ),
    f"{{info}}/WHEEL": f"Wheel-Version: 1.0\\nRoot-Is-Purelib: false\\nTag: {{tag}}\\n",
    **({{"module.so": native.read_bytes()}} if native.exists() else {{}}),
}}
pathlib.Path("dist").mkdir(exist_ok=True)
with zipfile.ZipFile(f"dist/{{name}}-{{version}}-{{tag}}.whl", "w") as wheel:
    for file, content in files.items():
        wheel.writestr(file, content)
    record = f"{{info}}/RECORD"
    wheel.writestr(record, "".join(f"{{file}},,\\n" for file in (*files, record)))
END
}}
"""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A failure and its fix.

    Attributes:
        cause: the slug that has to be named.
        before: makes the files of the failing project.
        settings: what the user's shell has set, before each command.
        command: fails; after the fix it succeeds, or prints `then`.
        typed: beginnings of the commands in the printed fix.
        values: what a reader puts in place of a name or of an example in them.
        advice: an expression for words of the printed fix; its groups are the action's variables.
        action: what the reader does; `{}` are the printed commands.
        again: the failed command, where the fix changes it.
        then: of a command that the machine can't carry out completely.
        needs: `cuda`, a Python (`3.12`), or parts of the machine (`PARTS`).
        is_slow: takes longer than three seconds.
    """

    cause: str
    command: str
    typed: str | tuple[str, ...] = ()
    before: str = "true"
    settings: str = "true"
    values: Mapping[str, str] = field(default_factory=dict)
    advice: str = ""
    action: str = "{}"
    again: str = ""
    then: str = ""
    needs: tuple[str, ...] = ()
    is_slow: bool = False

    def remedy(self, fix: str) -> str:
        """Return what the reader of a printed fix types."""
        words = re.search(self.advice, fix)
        assert words, f"no {self.advice!r} in: {fix}"
        starts = (self.typed,) if isinstance(self.typed, str) else self.typed
        commands = [command_of(fix, start) for start in starts]
        for name, value in self.values.items():
            assert any(name in command for command in commands), f"no {name!r} in: {commands}"
            commands = [command.replace(name, value) for command in commands]
        variables = [f"{name}='{value}'" for name, value in words.groupdict().items()]
        typed = "\n".join(commands)
        action, again = (one.replace("{}", typed) for one in (self.action, self.again))
        if "{}" in self.again and self.action == "{}":
            action = "true"
        return "\n".join(("set -e", *variables, action, "set +e", again or self.command))


class Outcome(NamedTuple):
    """What a script printed, and its exit status."""

    status: int
    lines: list[str]


def command_of(fix: str, start: str) -> str:
    """Return the first command of a printed fix that starts in this way."""
    commands = [code for code in _CODE.findall(fix) if code.startswith(start)]
    assert commands, f"no command {start!r} in: {fix}"
    return str(commands[0])


def run_script(script: str, folder: Path, variables: Mapping[str, str]) -> Outcome:
    """Run a script without the caller's settings, but with variables."""
    programs = Path(sys.executable).parent
    environ = {
        **{name: value for name, value in os.environ.items() if _KEPT.match(name)},
        "PATH": f"{programs}:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(folder),
        **variables,
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "GIT_ALLOW_PROTOCOL": "file",
        **{
            f"GIT_{role}_{part}": "x@example.org"
            for role in ("AUTHOR", "COMMITTER")
            for part in ("NAME", "EMAIL")
        },
    }
    done = subprocess.run(
        ["/bin/bash", "-c", _FUNCTIONS + script],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return Outcome(done.returncode, done.stdout.decode("utf-8", "replace").splitlines())
