"""Broken environments of real packages: what breaks each, its true cause, and what repairs it.

A situation is made by uv or pip from the configured index, broken, diagnosed, and repaired as the
report says: its commands are typed into a shell, its advice in words is carried out by `repair`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cuwheel.base.paths import ROOT
from cuwheel.base.system.output.documents import as_line
from cuwheel.check.diagnose.diagnose import DiagnoseOptions, callers_environment, diagnose

Fixed = Literal["by command", "by words", "not known", "not typed", "failed"]

_UV = [sys.executable, "-m", "uv"]
# With uv, which commands are for where an environment has no pip.
_PATH = f"{Path(sys.executable).parent}:/usr/bin:/bin"
_FOREIGN = ("CUWHEEL_", "PYTHON", "VIRTUAL_ENV", "CONDA", "LD_")  # variables of the test's process
# True in every environment of this kind, and no cause of a failure: PyTorch for the CPU.
_ALWAYS = r"^built-without-cuda: torch \S+ is built without CUDA"
_IMPORT = r"^diagnose-import-failed: "
_TIME_LIMIT = 600  # seconds
# Unlike others', a process of root may read all files: without these it may not.
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--")


@dataclass(kw_only=True)
class Broken:
    """An environment that a situation breaks.

    Attributes:
        start: the folder that the user works in.
        environ: variables of the user.
        words: arguments of `diagnose`, packages and options.
        prefix: the command that starts `diagnose` and the check.
    """

    folder: Path
    start: Path
    environ: dict[str, str]
    words: list[str] = field(default_factory=list)
    prefix: tuple[str, ...] = ()
    name: str = "env"
    target: Path | None = None

    @property
    def root(self) -> Path:
        """The environment's folder."""
        return self.folder / self.name

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.root / "bin" / "python"

    @property
    def site(self) -> Path:
        """Its site-packages."""
        return self.root / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"

    def find(self, pattern: str) -> Path:
        """Return the first file of site-packages that a pattern fits."""
        return min(self.site.glob(pattern))

    def delete(self, pattern: str) -> None:
        """Delete the files, links or folders that a pattern fits."""
        paths = sorted(self.site.glob(pattern))
        assert paths, pattern
        subprocess.run(["rm", "-r", *paths], check=True)

    def replace(self, path: Path, content: bytes | str) -> Path:
        """Write a file anew: uv's cache has the same file under another name."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def user_folder(self, name: str, files: Mapping[str, str]) -> Path:
        """Make a folder of the user's own files."""
        folder = self.folder / name
        for file, content in files.items():
            self.replace(folder / file, content)
        folder.mkdir(exist_ok=True)
        return folder

    def uv(self, *words: str | Path) -> None:
        """Run uv."""
        run([*_UV, *words], self.environ | {"HOME": os.environ["HOME"]})

    def install(self, *packages: str | Path, python: Path | None = None) -> None:
        """Install packages with what they require."""
        self.uv("pip", "install", "-q", "--python", python or self.python, *packages)

    def put(self, *packages: str | Path) -> None:
        """Install packages without what they require."""
        self.install("--no-deps", *packages)

    def unpack(self, name: str, *words: str | Path) -> Path:
        """Install packages into a folder."""
        folder = self.folder / name
        self.install("--target", folder, *words)
        return folder

    def compile(self, path: Path, code: str, *flags: str | Path) -> Path:
        """Compile a library of C."""
        path.parent.mkdir(parents=True, exist_ok=True)
        source = self.replace(self.folder / f"{path.name}.c", code)
        run(["gcc", "-shared", "-fPIC", "-o", path, source, *flags], dict(os.environ))
        return path

    def diagnose(self) -> dict[str, Any]:
        """Return the report, of a process that has none of the user's variables for itself."""
        request = {
            "packages": self.words,
            "python": str(self.target or self.root),
            "start": str(self.start),
            "environ": self.environ,
        }
        command = [*self.prefix, sys.executable, "-m", __name__, json.dumps(request)]
        environ = {"PATH": _PATH, "PYTHONPATH": str(ROOT), "HOME": str(self.folder / "home")}
        output = run([*command], environ, ROOT)
        document: dict[str, Any] = json.loads(output[output.index("{") :])
        return document

    def type(self, command: str) -> None:
        """Run a printed command as a person does, who keeps the variables that it sets."""
        variables = self.folder / "variables"
        script = f"{command}\nresult=$?\nenv -0 > {shlex.quote(str(variables))}\nexit $result"
        # A shell has started before a variable kept programs from starting.
        late = {name: value for name, value in self.environ.items() if name.startswith("LD_")}
        exports = [f"export {name}={shlex.quote(value)}" for name, value in late.items()]
        early = {name: value for name, value in self.environ.items() if name not in late}
        run(["sh", "-c", "\n".join((*exports, script))], early, self.start)
        lines = variables.read_text().split("\0")
        self.environ = dict(line.split("=", 1) for line in lines if "=" in line)

    def works(self, check: str) -> str:
        """Return what a check prints where it fails; empty where it works."""
        command = [*self.prefix, "sh", "-c", check.replace("{site}", shlex.quote(str(self.site)))]
        environ = {**self.environ, "PATH": f"{self.root / 'bin'}:{self.environ['PATH']}"}
        try:
            run(command, environ, self.start)
        except AssertionError as problem:
            return str(problem)
        return ""


def run(command: list[Any], environ: Mapping[str, str], folder: Path | None = None) -> str:
    """Run a program that has to succeed, and return its output."""
    done = subprocess.run(
        [*map(str, command)],
        env=dict(environ),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIME_LIMIT,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}"
    return done.stdout


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A broken environment.

    Attributes:
        packages: that are installed first, with what they require.
        breaks: what breaks it then.
        cause: an expression for `anchor: what: cause` of the verdict with the true cause; empty:
            nothing is broken, and no verdict may say so.
        also: expressions for the true consequences.
        check: a shell command that works in the repaired environment; the environment's `bin` is
            first on PATH.
        words: an expression for the fix of the cause, where a person decides.
        repair: what these words say; None: the report's commands repair it, or nothing can.
        is_unknown: no command can repair it; the report must print none.
        is_costly: the command takes gigabytes, and isn't typed.
        has_pip: it has pip, which the report's commands use then.
    """

    name: str
    packages: tuple[str, ...] = ()
    breaks: Callable[[Broken], None]
    cause: str
    also: tuple[str, ...] = ()
    check: str
    words: str = ""
    repair: Callable[[Broken], None] | None = None
    is_unknown: bool = False
    is_costly: bool = False
    has_pip: bool = False
    folder: str = "env"


@dataclass(frozen=True, kw_only=True)
class Result:
    """The report's part in a situation.

    Attributes:
        has_cause: a warning or worse names the true cause.
        invented: warnings and worse that are neither the cause nor a consequence.
        fixed: how the environment became right, or why not: `log`.
    """

    has_cause: bool
    invented: tuple[str, ...]
    fixed: Fixed
    log: str

    @property
    def is_right(self) -> bool:
        """True if the cause is named, and no other one."""
        return self.has_cause and not self.invented


def make(situation: Situation, folder: Path, cache: Path) -> Broken:
    """Make the environment of a situation, and break it."""
    folder.mkdir(parents=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
    (folder / "work").mkdir()
    (folder / "home").mkdir()
    environ = {**kept, "PATH": _PATH, "HOME": str(folder / "home"), "UV_CACHE_DIR": str(cache)}
    environ |= {"TMPDIR": str(cache.parent), "UV_FIND_LINKS": environ.get("PIP_FIND_LINKS", "")}
    broken = Broken(folder=folder, start=folder / "work", environ=environ, name=situation.folder)
    seed = ["--seed"] * situation.has_pip
    broken.uv("venv", "-q", *seed, "--python", sys.executable, broken.root)
    if situation.packages:
        broken.install(*situation.packages)
    situation.breaks(broken)
    return broken


def judge(situation: Situation, broken: Broken) -> Result:
    """Diagnose a broken environment, and repair it as the report says."""
    verdicts = list(problems(broken.diagnose()))
    lines = [line_of(verdict) for verdict in verdicts]
    expected = [_ALWAYS, _IMPORT, *situation.also, *filter(None, (situation.cause,))]
    invented = tuple(line for line in lines if not any(re.search(one, line) for one in expected))
    named = [v for v in verdicts if situation.cause and re.search(situation.cause, line_of(v))]
    fixed, log = _repair(situation, broken, verdicts, named)
    return Result(
        has_cause=bool(named) or not situation.cause,
        invented=invented,
        fixed=fixed,
        log="\n".join((*map(_shown, verdicts), log)),
    )


def _repair(
    situation: Situation,
    broken: Broken,
    verdicts: list[dict[str, str]],
    named: list[dict[str, str]],
) -> tuple[Fixed, str]:
    """Type the commands, then carry out the words; return how the environment became right."""
    counting = [verdict for verdict in verdicts if not re.search(_ALWAYS, line_of(verdict))]
    commands = [*dict.fromkeys(verdict["command"] for verdict in counting if verdict["command"])]
    if situation.is_unknown or not situation.cause:
        has_words = any(re.search(situation.words, verdict["fix"]) for verdict in named)
        is_right = not commands and (has_words or not situation.words)
        return ("not known" if is_right else "failed"), "another fix"
    if situation.is_costly and commands:
        return "not typed", ""
    if not (left := _type_all(situation, broken, commands)):
        return "by command", ""
    if not situation.repair:
        return "failed", left
    if not any(re.search(situation.words, verdict["fix"]) for verdict in named):
        return "failed", f"no fix says {situation.words}"
    situation.repair(broken)
    left = _left(situation, broken)
    return ("failed" if left else "by words"), left


def _type_all(situation: Situation, broken: Broken, commands: list[str]) -> str:
    """Type commands, and return what doesn't work then."""
    try:
        for command in commands:
            broken.type(command)
    except AssertionError as problem:
        return str(problem)
    return _left(situation, broken) if commands else "it names no command"


def _left(situation: Situation, broken: Broken) -> str:
    """Return what doesn't work yet; empty: everything works, and the report says so."""
    if fault := broken.works(situation.check):
        return fault
    left = [one for one in problems(broken.diagnose()) if not re.search(_ALWAYS, line_of(one))]
    return "\n".join(("after the fix:", *map(_shown, left))) if left else ""


def problems(report: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield warnings and what is broken."""
    yield from (one for one in report["verdicts"] if one["level"] in {"warning", "broken"})


def line_of(verdict: Mapping[str, str]) -> str:
    """Return what expressions are compared with."""
    return f"{verdict['anchor']}: {verdict['what']}: {verdict['cause']}"


def _shown(verdict: Mapping[str, str]) -> str:
    rest = f"{verdict['fix']} | {verdict['command']}" if verdict["command"] else verdict["fix"]
    return f"  {verdict['level']} {line_of(verdict)}\n      fix {rest}"


def main(request: Mapping[str, Any]) -> None:
    """Print the report on an environment."""
    options = DiagnoseOptions(
        packages=tuple(request["packages"]),
        python=request["python"],
        start=Path(request["start"]),
        project=ROOT,
    )
    report = diagnose(options, callers_environment(request["environ"]), ())
    sys.stdout.write(as_line(report))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
