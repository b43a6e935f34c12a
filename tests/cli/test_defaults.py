"""Defaults of options from files: docs/reference/environment-variables.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError
from cuwheel.base.spelling import ENTRY_VARIABLE
from cuwheel.cli.defaults import CONFIG_VARIABLE, apply_defaults
from cuwheel.cli.dispatch import COMMANDS, parser_of

_FILE = """
[audit]
fail-on = "never"
exclude = ["libone*", "libtwo*"]
quiet = true
[build]
jobs = 3
shard = "2/4"
"""


def parse(folder: Path, text: str, command: str, *typed: str) -> dict[str, object]:
    path = folder / "config.toml"
    path.write_text(text)
    parser = parser_of(command)
    caller = Caller({CONFIG_VARIABLE: str(path), "CUWHEEL_INVOKED_FROM": str(folder)})
    apply_defaults(parser, command, COMMANDS, caller)
    return vars(parser.parse(typed))


def test_file_gives_defaults(tmp_path: Path) -> None:
    args = parse(tmp_path, _FILE, "audit", "x.whl")

    assert (args["fail_on"], args["exclude"]) == ("never", ["libone*", "libtwo*"])
    assert args["quiet"]
    assert str(parse(tmp_path, _FILE, "build", "x-130")["shard"]) == "2/4"


@pytest.mark.parametrize(
    ("command", "typed", "name", "value"),
    [
        ("audit", ("--fail-on", "error"), "fail_on", "error"),
        ("audit", ("--fail-on", "warning"), "fail_on", "warning"),  # the usual one
        ("audit", ("--exclude", "libthree*"), "exclude", ["libthree*"]),
        ("audit", ("--verbose",), "quiet", False),
        ("build", ("--jobs", "auto"), "jobs", None),
        ("build", ("--shard", "1/2"), "shard", "1/2"),
    ],
)
def test_command_line_counts_first(
    tmp_path: Path, command: str, typed: tuple[str, ...], name: str, value: object
) -> None:
    found = parse(tmp_path, _FILE, command, "x", *typed)[name]

    assert found == value or str(found) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[audits]", '[audits] is not a table of a command: did you mean "audit"?'),
        ("jobs = 3", "[jobs] is not a table of a command"),
        ("[audit]\njbos = 3", "[audit] has jbos, which is no option of `audit`"),
        ('[audit]\nfail-on = "allways"', "invalid choice: 'allways'"),
        ("[audit]\nquiet = 1", "it is a flag, which takes true or false"),
        ("[audit]\nfail-on = [1]", "it takes a text or a number"),
        ("[audit]\nexclude = [[1]]", "it takes a text or a number, or a list of them"),
        ("[audit", "can't be read: "),
    ],
)
def test_wrong_file_is_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(tmp_path, text, "audit", "x.whl")

    error = raised.value
    assert error.what.startswith(f"{tmp_path / 'config.toml'}: ")
    assert words in f"{error.what}: {error.why}"
    assert f"{CONFIG_VARIABLE}=" in (error.fix or "")


def test_named_file_has_to_be_there(tmp_path: Path) -> None:
    caller = Caller({CONFIG_VARIABLE: str(tmp_path / "none.toml")})

    with pytest.raises(UsageError, match=r"none\.toml: can't be read"):
        apply_defaults(parser_of("audit"), "audit", COMMANDS, caller)


def test_home_that_nobody_can_read_has_no_defaults(tmp_path: Path) -> None:
    for home in (tmp_path / "none", tmp_path / "file" / "x"):
        (tmp_path / "file").write_text("")
        caller = Caller({"XDG_CONFIG_HOME": str(home)})

        assert apply_defaults(parser_of("audit"), "audit", COMMANDS, caller) == ""


def test_option_undoes_the_default_that_it_excludes(tmp_path: Path) -> None:
    args = parse(tmp_path, "[day-zero]\nquick = true", "day-zero", "torch==2.15.0", "--build")

    assert (args["build"], args["quick"]) == (True, False)


def test_projects_table_counts_before_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    for folder in (project / "recipes", home / "cuwheel"):
        folder.mkdir(parents=True)
    (project / "pyproject.toml").write_text("[tool.cuwheel.build]\njobs = 1")
    (home / "cuwheel" / "config.toml").write_text("[build]\njobs = 2\noffline = true")
    monkeypatch.chdir(project)
    monkeypatch.setattr("cuwheel.base.paths.is_checkout", lambda: False)
    parser = parser_of("build")

    for named, jobs in (("", 2), (str(project), 1)):  # only where its recipes may run, too
        caller = Caller(
            {"XDG_CONFIG_HOME": str(home), ENTRY_VARIABLE: "cuwheel", "CUWHEEL_PROJECT": named}
        )
        apply_defaults(parser, "build", COMMANDS, caller)
        args = parser.parse(["x-130"])
        assert (args.jobs, args.offline) == (jobs, True)


def test_command_takes_them(tmp_path: Path) -> None:
    log, path = tmp_path / "build.log", tmp_path / "config.toml"
    log.write_text("nothing failed\n")
    path.write_text("[explain]\njson = true\n")
    command = [sys.executable, "-m", "cuwheel", "explain", str(log)]
    environ = os.environ | {CONFIG_VARIABLE: str(path)}
    output = subprocess.run(command, check=True, env=environ, capture_output=True).stdout

    assert json.loads(output)
