"""Documents as JSON, and read again."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cuwheel.__main__ import main
from cuwheel.errors import AuditError
from cuwheel.paths import ROOT
from cuwheel.system.output.documents import Schema, as_data, as_file, as_line
from tests.support.documents import read_document


@dataclass(frozen=True)
class _Note:
    SCHEMA: ClassVar = Schema("note", "1.2")

    text: Any


def test_names_its_schema_before_its_fields() -> None:
    assert list(as_data(_Note("x")).items()) == [
        ("schema", "note"),
        ("schema_version", "1.2"),
        ("text", "x"),
    ]


def test_is_one_line_whatever_it_holds() -> None:
    line = as_line(_Note("a\nb\u2028\udcff"))

    assert (line.isascii(), line.count("\n")) == (True, 0)
    assert json.loads(line) == json.loads(as_file(_Note("a\nb\u2028\udcff")))


def test_path_becomes_text() -> None:
    assert json.loads(as_line(_Note(Path("/a/b"))))["text"] == "/a/b"


@pytest.mark.parametrize(("value", "kind"), [({1}, TypeError), (float("nan"), ValueError)])
def test_refuses_what_json_lacks(value: object, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        as_line(_Note(value))


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({"schema": "note", "schema_version": "2.0"}, "its schema is note 2.0, not note 1.2"),
        ({"schema": "memo", "schema_version": "1.2"}, "its schema is memo 1.2, not note 1.2"),
    ],
)
def test_refuses_document_of_another_form(named: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        _Note.SCHEMA.take_from(named)


def test_takes_document_of_a_later_minor_version() -> None:
    content = {"schema": "note", "schema_version": "1.9", "text": "x"}

    _Note.SCHEMA.take_from(content)

    assert content == {"text": "x"}


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["audit", "missing.whl", "--json"], "a given path is neither a wheel"),
        (["audit", "--json", "--no-such-option", "x"], "--no-such-option"),
        (["build", "no-such-130", "--json"], "no-such"),
        (["explain", "missing.log", "--json"], "there is no log missing.log"),
        (["index", "--json", "--only", "x"], "--only is for --check"),
        (["lock-verify", "999", "--json"], "999"),
        (["pick", "a b c", "--json"], "is not a package name"),
        (["rebuild", "--json"], "needs a published wheel"),
        (["verify", "--json"], "verify"),
        (["index", "--dist", str(ROOT / "ci"), "--to", "/proc/self/x", "--json"], "/proc/self/x"),
        (["no-such-command", "--json"], "there is no command"),
    ],
)
def test_command_that_fails_at_once_answers_with_its_error(
    words: list[str],
    what: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    status = main(words)

    told = read_document(capsys.readouterr().out, "error")
    assert what in told["what"]
    assert (bool(told["fix"] or told["why"]), told["exit_code"]) == (True, status)


def test_error_behind_an_answer_says_nothing_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    wheel = tmp_path / "pkg-1.0-py3-none-any.whl"
    wheel.write_bytes(b"no archive")

    assert main(["audit", str(wheel), "--json"]) == AuditError.exit_code

    [found] = read_document(capsys.readouterr().out, "audit")["wheels"]
    assert (found["verdict"], found["findings"][0]["severity"]) == ("error", "error")
