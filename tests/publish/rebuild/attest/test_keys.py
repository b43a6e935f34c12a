from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.formats.signing_keys import make_signing_key, read_public_key, read_signing_key
from cuwheel.base.system import process
from cuwheel.base.system.process import Finished
from cuwheel.publish.rebuild.attest.signatures import open_envelope, sign_statement


def openssl(*words: str | Path) -> Finished:
    return process.run(["openssl", *words], env={"PATH": os.defpath})


@pytest.mark.parametrize(
    "words",
    [
        ("genpkey", "-algorithm", "ed25519"),
        ("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
        ("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"),
        ("ecparam", "-genkey", "-noout", "-name", "prime256v1"),
    ],
)
def test_signs_with_keys_of_openssl(words: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    openssl(*words, "-out", path)
    path.chmod(0o600)

    key = read_signing_key(path)
    stated, by = open_envelope(
        sign_statement('{"a": 1}', key).encode(), [read_public_key(key.public.word)]
    )

    assert (stated, [one.id for one in by]) == ({"a": 1}, [key.public.id])


def test_new_key_is_what_openssl_reads_and_no_other_user(tmp_path: Path) -> None:
    path = tmp_path / "alice.pem"

    result = make_signing_key(path)

    openssl("pkey", "-in", path, "-pubout", "-outform", "DER", "-out", tmp_path / "public")
    assert hashlib.sha256((tmp_path / "public").read_bytes()).hexdigest() == result.public.id
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_signing_key(path).public.word == result.public.word


def test_overwrites_no_key(tmp_path: Path) -> None:
    path = tmp_path / "alice.pem"
    path.write_text("mine")

    with pytest.raises(UsageError, match="already exists"):
        make_signing_key(path)
    assert path.read_text() == "mine"


def test_refuses_key_that_others_can_read(tmp_path: Path) -> None:
    path = tmp_path / "alice.pem"
    make_signing_key(path)
    path.chmod(0o640)

    with pytest.raises(UsageError, match="can be read by others"):
        read_signing_key(path)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:x"), "has a password"),
        (
            ("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"),
            "not a usable private key",
        ),
        (("genpkey", "-algorithm", "ed448"), "not a usable private key"),
        (("ecparam", "-name", "prime256v1"), "not a usable private key"),
    ],
)
def test_refuses_other_keys(words: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    openssl(*words, "-out", path)
    path.chmod(0o600)

    with pytest.raises(UsageError, match=reason):
        read_signing_key(path)


@pytest.mark.parametrize("word", ["", "x", "AAAA", "MCowBQYDK2VwAyEA", "ä" * 60])
def test_refuses_words_that_are_no_public_key(word: str) -> None:
    with pytest.raises(ValueError, match="not a usable public key"):
        read_public_key(word)
