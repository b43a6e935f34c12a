"""RECORD compared with the contents of a wheel, which the tests hash by themselves."""

from __future__ import annotations

import base64
import hashlib

import pytest

from cuwheel.base.formats.wheel.record import (
    Content,
    ContentHash,
    RecordFormatError,
    record_faults,
    record_rows,
    record_text,
)

_INFO = "tiny-1.dist-info"
_OWN = f"{_INFO}/RECORD"
_FILES = {"pkg/run.sh": b"#!/bin/sh\n", "pkg/z.so": b"z" * (3 << 20), f"{_INFO}/WHEEL": b""}
_NOT_LISTED = Content(digest="", size=0)


def content_of(data: bytes) -> Content:
    """Hash by other code than the one under test."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return Content(digest=f"sha256={digest}", size=len(data))


CONTENTS = {**{name: content_of(data) for name, data in _FILES.items()}, _OWN: _NOT_LISTED}
SOUND = record_text({name: CONTENTS[name] for name in _FILES}, _INFO)


def faults(text: str) -> tuple[tuple[str, str], ...]:
    return record_faults(text, _INFO, CONTENTS, digest_of)


def digest_of(name: str, algorithm: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.new(algorithm, _FILES[name]).digest())
    return f"{algorithm}={digest.decode().rstrip('=')}"


def test_hashes_content_in_pieces() -> None:
    hashed = ContentHash()

    for piece in (b"a" * (1 << 20), b"", b"b" * (1 << 20), b"c"):
        hashed.update(piece)

    assert hashed.content() == content_of(b"a" * (1 << 20) + b"b" * (1 << 20) + b"c")


def test_finds_record_sound() -> None:
    assert faults(SOUND) == ()


@pytest.mark.parametrize(
    ("old", "new", "name", "fact"),
    [
        ("sha256=", "sha256=A", "pkg/z.so", "its hash in RECORD is sha256=A"),
        (
            ",3145728\n",
            ",3145729\n",
            "pkg/z.so",
            "its size in RECORD is 3145729, its real size is 3145728",
        ),
        (",10\n", ",\n", "pkg/run.sh", "its size in RECORD is missing, its real size is 10"),
        ("pkg/z.so", "pkg/y.so", "pkg/y.so", "RECORD lists it, but it doesn't exist"),
        ("pkg/z.so", "pkg/y.so", "pkg/z.so", "RECORD doesn't list it"),
        ("RECORD,,", "RECORD,sha256=x,", _OWN, "hash or size of itself"),
        ("RECORD,,", "RECORD,,1", _OWN, "hash or size of itself"),
        ("pkg/z.so", "pkg/run.sh", "pkg/run.sh", "RECORD lists it twice"),
        ("pkg", "\0pkg", _OWN, "it is not a table of files: it contains a zero byte"),
        ("pkg", '"pkg', _OWN, "it is not a table of files: "),
    ],
)
def test_finds_fault(old: str, new: str, name: str, fact: str) -> None:
    assert old in SOUND

    problems = faults(SOUND.replace(old, new))

    assert any(name == file and fact in fault for file, fault in problems), problems


def test_finds_all_faults() -> None:
    assert len(faults(SOUND.replace("sha256=", "sha256=A"))) == len(_FILES)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_finds_missing_table(text: str) -> None:
    assert faults(text) == ((_OWN, "it is missing or empty"),)


@pytest.mark.parametrize("name", ["RECORD.jws", "RECORD.p7s"])
def test_lets_signature_of_record_be_unlisted(name: str) -> None:
    contents = {**CONTENTS, f"{_INFO}/{name}": _NOT_LISTED}

    assert record_faults(SOUND, _INFO, contents, digest_of) == ()


@pytest.mark.parametrize("algorithm", ["sha384", "sha512"])
def test_takes_stronger_hashes(algorithm: str) -> None:
    name = "pkg/z.so"
    text = SOUND.replace(CONTENTS[name].digest, digest_of(name, algorithm))

    assert faults(text) == ()
    wrong = text.replace(f"{algorithm}=", f"{algorithm}=A")
    assert [file for file, _ in faults(wrong)] == [name]


@pytest.mark.parametrize("algorithm", ["md5", "sha1"])
def test_takes_no_weaker_hash(algorithm: str) -> None:
    name = "pkg/z.so"
    text = SOUND.replace(CONTENTS[name].digest, digest_of(name, algorithm))

    [(file, fact)] = faults(text)

    assert (file, f"is of {algorithm}," in fact) == (name, True)


def test_reads_what_it_writes() -> None:
    contents = {"a, b": content_of(b"x"), 'quoted "so"': content_of(b"")}

    rows = record_rows(record_text(contents, _INFO))

    written = [(name, content.digest, str(content.size)) for name, content in contents.items()]
    assert rows == (*written, (_OWN, "", ""))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_reads_short_rows_and_skips_empty_ones(end: str) -> None:
    assert record_rows(f"a{end}{end}b,x{end}") == (("a", "", ""), ("b", "x", ""))


@pytest.mark.parametrize("text", ["\0" * 80, "a,\0,", '"never ends', '"' + "long" * 100_000])
def test_refuses_malformed_table(text: str) -> None:
    with pytest.raises(RecordFormatError):
        record_rows(text)
