"""Signed entries of a remote compile cache, read over plain HTTP, with real caches behind it."""

from __future__ import annotations

import contextlib
import functools
import http.server
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cuwheel.base.errors import CacheEntryError, UsageError
from cuwheel.base.formats.signing_keys import SigningKey, make_signing_key, read_signing_key
from cuwheel.base.paths import ROOT
from cuwheel.build.compile.cache.remote import RemoteCache, RemoteSigning, parse_remote_cache
from cuwheel.build.compile.cache.signed import (
    Maker,
    RefusedEntryError,
    SignedStorage,
    open_signed,
    seal,
    unseal,
)
from cuwheel.build.compile.cache.storage import OversizedEntryError, Storage
from cuwheel.build.workspace.workspace import Workspace
from tests.support.build.compile_caches import Bench, cache_of
from tests.support.factories import heard, make_workspace

_MAKER = Maker(compiler="one", program="sccache 0.16.0")
_NAME, _VALUE = "0123-ab", b"an object\nof two lines\n" * 100


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return make_signing_key(tmp_path_factory.mktemp("keys") / "key.pem")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return make_signing_key(tmp_path_factory.mktemp("keys") / "key.pem")


def test_returns_what_was_signed(key: SigningKey) -> None:
    entry = seal(_NAME, _VALUE, _MAKER, key)

    assert unseal(_NAME, entry, _MAKER, {key.public.id: key.public}) == _VALUE


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda _: _VALUE, "isn't signed"),
        (lambda _: b"", "isn't signed"),
        (lambda entry: entry[:40], "cut off"),
        (lambda entry: entry[:-1], "bytes, not"),
        (lambda entry: entry + b"x", "bytes, not"),
        (lambda entry: entry[:-1] + b"x", "isn't the one that was signed"),
        (lambda entry: entry.replace(b'"size"', b'"Size"', 1), "signature isn't one"),
        (lambda entry: entry.replace(b"{", b"[", 1), "statement can't be read"),
        (lambda _: b"cuwheel-entry-1\n" + b"[" * 100_000, "cut off"),
    ],
)
def test_refuses_what_is_not_as_signed(
    key: SigningKey, damage: Callable[[bytes], bytes], why: str
) -> None:
    entry = damage(seal(_NAME, _VALUE, _MAKER, key))

    with pytest.raises(RefusedEntryError, match=why):
        unseal(_NAME, entry, _MAKER, {key.public.id: key.public})


def test_refuses_entry_of_another_key_compiler_program_or_signer(
    key: SigningKey, foreign: SigningKey
) -> None:
    """A signature of one's own can't be put on another's statement either."""
    keys = {key.public.id: key.public}
    entry = seal(_NAME, _VALUE, _MAKER, key)
    lines = seal(_NAME, _VALUE, _MAKER, foreign).split(b"\n", 3)
    mixed = b"\n".join([*entry.split(b"\n", 3)[:2], lines[2], _VALUE])
    other = replace(_MAKER, compiler="two"), replace(_MAKER, program="ccache 4.14")

    for name, offered, maker, why in (
        ("0123-cd", entry, _MAKER, "for another key"),
        (_NAME, entry, other[0], "for another compiler"),
        (_NAME, entry, other[1], "for another program"),
        (_NAME, seal(_NAME, _VALUE, _MAKER, foreign), _MAKER, "an unknown key"),
        (_NAME, mixed, _MAKER, "signature isn't one"),
    ):
        with pytest.raises(RefusedEntryError, match=why):
            unseal(name, offered, maker, keys)


@pytest.mark.parametrize(
    "text", [r"\u001b[31mRED\u0007", r"a\nb", r"\u202edeh", r"\u0085", r"\u2028"]
)
def test_shows_an_unknown_signer_without_control_characters(text: str, key: SigningKey) -> None:
    entry = b'cuwheel-entry-1\n{"signer": "%s"}\nAAAA\nx' % text.encode()

    with pytest.raises(RefusedEntryError, match="an unknown key") as caught:
        unseal(_NAME, entry, _MAKER, {key.public.id: key.public})

    assert str(caught.value).isprintable()


class Kept:
    """A storage in memory."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get(self, name: str) -> bytes | None:
        if name == "large":
            raise OversizedEntryError("it has 9 GiB")
        return self.values.get(name)

    def put(self, name: str, value: bytes) -> None:
        self.values[name] = value


def _open(storage: Storage, signing: RemoteSigning, warnings: list[str]) -> SignedStorage:
    return open_signed(storage, signing, _MAKER, warnings.append, Path("compiles"))


def test_stores_nothing_without_a_key_and_warns_once(key: SigningKey) -> None:
    kept, warnings = Kept(), list[str]()
    kept.values = {"a": b"poison", "b": b"poison"}
    storage = _open(kept, RemoteSigning(public_keys=(key.public.word,)), warnings)

    answers = [storage.get(name) for name in ("a", "b", "large", "none")]
    storage.put("c", b"value")

    assert answers == [None] * 4
    assert list(kept.values) == ["a", "b"]
    assert len(warnings) == 1
    assert "3 refused" in storage.summary()


def test_finds_wrong_entries_with_the_documented_probability(key: SigningKey) -> None:
    """One of 4 is chosen: 400 wrong ones, signed as right, are 100 finds, more or less."""
    kept = Kept()
    names = [f"entry-{number}" for number in range(400)]
    kept.values = {name: seal(name, b"wrong", _MAKER, key) for name in names}
    storage = _open(kept, RemoteSigning(public_keys=(key.public.word,), sample=4), [])

    for name in names:
        if storage.get(name) is None:
            assert storage.get(name) is None, "it is decided once"
            storage.put(name, b"right")

    assert 60 < len(storage.wrong) < 140
    assert len(storage.taken) == 400 - len(storage.wrong)
    with pytest.raises(CacheEntryError, match="entry-"):
        storage.check()


def test_documents_state_the_probability_of_the_usual_sample() -> None:
    page = (ROOT / "docs" / "how-to" / "compile-cache.md").read_text()
    stated = re.search(r"Of (\d+)\s+wrong\s+entries, one is found in ([\d.]+) % of builds", page)
    assert stated

    sample = RemoteSigning(public_keys=("one",)).sample

    assert f"One of {sample} (`CUWHEEL_REMOTE_CACHE_SAMPLE`" in page
    assert round(100 * (1 - (1 - 1 / sample) ** int(stated[1])), 1) == float(stated[2])


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CUWHEEL_REMOTE_CACHE_KEYS", "nonsense"),
        ("CUWHEEL_REMOTE_CACHE_SIGN", "/nowhere/key.pem"),
        ("CUWHEEL_REMOTE_CACHE_SAMPLE", "often"),
    ],
)
def test_names_settings_that_can_not_be_used(key: SigningKey, variable: str, value: str) -> None:
    address = {"CUWHEEL_REMOTE_CACHE": "http://box/cache"}
    keys = {"CUWHEEL_REMOTE_CACHE_KEYS": key.public.word}

    with pytest.raises(UsageError, match=variable):
        parse_remote_cache({**address, **keys, variable: value})


@contextlib.contextmanager
def _serving(folder: Path) -> Iterator[str]:
    """Serve files of a folder as any web server does: for reading."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Machine:
    """A machine with a compile cache of its own."""

    def __init__(self, bench: Bench, workspace: Workspace) -> None:
        self.bench, self.workspace = bench, workspace

    def compile(self, remote: RemoteCache) -> bytes:
        """Compile the source with an empty local cache, and return the object."""
        source = self.bench.folder / "a.cpp"
        source.write_text("int f(int x) { return x * 3; }\n")
        cache = replace(self.bench.cache, remote=remote)
        with cache.remote_served(self.workspace, self.bench.fingerprint):
            self.bench.compile(source)
        return source.with_suffix(".o").read_bytes()


@pytest.fixture(params=["ccache", "sccache"])
def new_machine(
    request: pytest.FixtureRequest, tmp_path: Path, shared_cache: Path
) -> Callable[[str], Machine]:
    program = cache_of(request.param, shared_cache)

    def make(name: str) -> Machine:
        # In one place, as the paths are in the keys.
        folder = tmp_path / "machine"
        if folder.exists():
            folder.rename(tmp_path / f"before-{name}")
        bench = Bench(folder=folder, program=program, python=Path(sys.executable), with_remote=True)
        return Machine(bench.set_up(), make_workspace(tmp_path))

    return make


@pytest.fixture
def filled(new_machine: Callable[[str], Machine], tmp_path: Path) -> tuple[Path, bytes, Path]:
    """A folder of signed entries, the object, and the key's file."""
    private = tmp_path / "key.pem"
    make_signing_key(private)
    shared = f"file:{tmp_path}/shared"
    remote = parse_remote_cache(
        {"CUWHEEL_REMOTE_CACHE": shared, "CUWHEEL_REMOTE_CACHE_SIGN": str(private)}
    )
    assert remote
    return tmp_path / "shared", new_machine("maker").compile(remote), private


def _reader(address: str, private: Path, sample: int) -> RemoteCache:
    word = read_signing_key(private).public.word
    remote = parse_remote_cache(
        {
            "CUWHEEL_REMOTE_CACHE": address,
            "CUWHEEL_REMOTE_CACHE_KEYS": word,
            "CUWHEEL_REMOTE_CACHE_SAMPLE": str(sample),
        }
    )
    assert remote
    return remote


def test_reads_signed_entries_from_a_plain_web_server(
    filled: tuple[Path, bytes, Path], new_machine: Callable[[str], Machine]
) -> None:
    folder, expected, private = filled
    machine = new_machine("reader")

    with _serving(folder) as address:
        made = machine.compile(_reader(address, private, 0))

    assert made == expected
    assert machine.bench.take_statistics()["misses"] == 0
    assert "1 signed entries taken" in heard(machine.workspace)


def test_compiles_a_sample_again_and_finds_it_equal(
    filled: tuple[Path, bytes, Path], new_machine: Callable[[str], Machine]
) -> None:
    folder, expected, private = filled
    machine = new_machine("reader")

    with _serving(folder) as address:
        made = machine.compile(_reader(address, private, 1))

    assert made == expected
    assert "0 signed entries taken, 1 more compiled again and equal" in heard(machine.workspace)


def test_wrong_object_with_a_right_signature_ends_the_build(
    filled: tuple[Path, bytes, Path], new_machine: Callable[[str], Machine]
) -> None:
    folder, _, private = filled
    [path] = folder.iterdir()
    key, machine = read_signing_key(private), new_machine("reader")
    program = machine.bench.program
    maker = Maker(compiler="one", program=f"{program.name} {program.version}")
    value = unseal(path.name, path.read_bytes(), maker, {key.public.id: key.public})
    middle = len(value) // 2
    wrong = value[:middle] + bytes([value[middle] ^ 1]) + value[middle + 1 :]
    path.write_bytes(seal(path.name, wrong, maker, key))

    with _serving(folder) as address, pytest.raises(CacheEntryError) as caught:
        machine.compile(_reader(address, private, 1))

    assert path.name in caught.value.what
    assert str(machine.bench.folder / "compiles") in caught.value.fix


def test_poisoned_entry_without_a_signature_is_compiled(
    filled: tuple[Path, bytes, Path], new_machine: Callable[[str], Machine]
) -> None:
    folder, expected, private = filled
    [path] = folder.iterdir()
    path.write_bytes(b"poison")
    machine = new_machine("reader")

    with _serving(folder) as address:
        made = machine.compile(_reader(address, private, 0))

    assert made == expected
    assert "it isn't signed" in " ".join(heard(machine.workspace).split())
