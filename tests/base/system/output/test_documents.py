"""Documents as JSON."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cuwheel.__main__ import main
from cuwheel.base.errors import AuditError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.output.documents import Schema, as_data, as_file, as_line
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


def test_any_content_is_one_line() -> None:
    line = as_line(_Note("a\nb\u2028\udcff"))

    assert (line.isascii(), line.count("\n")) == (True, 0)
    assert json.loads(line) == json.loads(as_file(_Note("a\nb\u2028\udcff")))


def test_path_becomes_text() -> None:
    assert json.loads(as_line(_Note(Path("/a/b"))))["text"] == "/a/b"


@pytest.mark.parametrize(("value", "kind"), [({1}, TypeError), (float("nan"), ValueError)])
def test_refuses_values_without_json_form(value: object, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        as_line(_Note(value))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"schema": "note", "schema_version": "2.0"}, "its schema is note 2.0, not note 1.2"),
        ({"schema": "memo", "schema_version": "1.2"}, "its schema is memo 1.2, not note 1.2"),
    ],
)
def test_refuses_document_of_another_form(content: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        _Note.SCHEMA.take_from(content)


def test_takes_document_of_a_later_minor_version() -> None:
    content = {"schema": "note", "schema_version": "1.9", "text": "x"}

    _Note.SCHEMA.take_from(content)

    assert content == {"text": "x"}


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (["audit", "missing.whl", "--json"], "a given path is neither a wheel"),
        (["audit", "--json", "--no-such-option", "x"], "--no-such-option"),
        (["build", "no-such-130", "--json"], "no-such"),
        (["explain", "missing.log", "--json"], "there is no log missing.log"),
        (["index", "--json", "--only", "x"], "--only needs --check"),
        (["lock-verify", "999", "--json"], "999"),
        (["pick", "a b c", "--json"], "is not a package name"),
        (["rebuild", "--json"], "needs a published wheel"),
        (["verify", "--json"], "verify"),
        (["index", "--dist", str(ROOT / "ci"), "--to", "/proc/self/x", "--json"], "/proc/self/x"),
        (["no-such-command", "--json"], "there is no command"),
    ],
)
def test_command_that_fails_at_once_answers_with_its_error(
    argv: list[str],
    what: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    status = main(argv)

    document = read_document(capsys.readouterr().out, "error")
    assert what in document["what"]
    assert (bool(document["fix"] or document["why"]), document["exit_code"]) == (True, status)


def test_error_after_a_document_prints_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    path = tmp_path / "pkg-1.0-py3-none-any.whl"
    path.write_bytes(b"no archive")

    assert main(["audit", str(path), "--json"]) == AuditError.exit_code

    [wheel] = read_document(capsys.readouterr().out, "audit")["wheels"]
    assert (wheel["verdict"], wheel["findings"][0]["severity"]) == ("error", "error")
