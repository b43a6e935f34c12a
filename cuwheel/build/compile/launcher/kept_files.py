"""Files of the compile cache: hashed, written whole, and read without following a link."""

from __future__ import annotations

import os
import zlib

try:
    from _blake2 import blake2b  # hashlib takes long to import
except ImportError:
    from hashlib import blake2b

DIGEST_SIZE = 32  # bytes
_LENGTH = 8  # bytes of a part's length
_FAST = 1  # zlib's level: nvcc takes seconds for what this takes milliseconds


def hashed(content: bytes) -> blake2b:
    """Return a BLAKE2b state that has read some bytes and can read more."""
    return blake2b(content, digest_size=DIGEST_SIZE)


def digest(content: bytes) -> bytes:
    """Return the BLAKE2b digest of some bytes, `DIGEST_SIZE` long."""
    return bytes(hashed(content).digest())


def read(path: str) -> bytes:
    """Read a file."""
    with open(path, "rb") as stream:  # noqa: PTH123 - pathlib takes long to import
        return stream.read()


def read_parts(path: str) -> list[bytes]:
    """Return the parts that `keep_parts` kept; the file counts as used then.

    Raises:
        OSError: it can't be read. All builds write to its folder, so no link is followed, and
            nothing is read that would block.
        ValueError: it is damaged.
    """
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(number, "rb") as stream:  # noqa: PTH123
        kept = stream.read() or b""  # None of a FIFO that somebody else keeps open
    packed = kept[DIGEST_SIZE:]
    if digest(packed) != kept[:DIGEST_SIZE]:
        raise ValueError("damaged")
    try:
        content = zlib.decompress(packed)
    except zlib.error as problem:
        raise ValueError("damaged") from problem
    os.utime(path)  # the engine removes what wasn't used for longest
    parts = []
    start = 0
    while start < len(content):
        begin = start + _LENGTH
        start = begin + int.from_bytes(content[start:begin], "big")
        parts.append(content[begin:start])
    return parts


def keep_parts(path: str, parts: list[bytes]) -> None:
    """Keep some parts, compressed, with a digest in front that shows damage."""
    content = b"".join(len(part).to_bytes(_LENGTH, "big") + part for part in parts)
    packed = zlib.compress(content, _FAST)
    keep(path, digest(packed) + packed)


def read_held(file: int) -> bytes:
    """Read all of an open file."""
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, "rb", closefd=False) as stream:
        return stream.read()


def write_all(file: int, text: bytes) -> None:
    """Write bytes into an open file, as a pipe may take a part of them only."""
    while text:
        text = text[os.write(file, text) :]


def keep(path: str, content: bytes) -> None:
    """Write a file of the cache, and its folder; a full disk is no reason for a build to fail."""
    aside = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)  # noqa: PTH103, PTH120
        with open(aside, "wb") as stream:  # noqa: PTH123
            stream.write(content)
        os.replace(aside, path)  # noqa: PTH105
    except OSError:
        remove(aside)


def replace(path: str, content: bytes) -> None:
    """Write a file as compilers do: not into one with a second hard link, but into a device.

    A file is whole or isn't there, also where a signal ends this.
    """
    is_device = os.path.exists(path) and not os.path.isfile(path)  # noqa: PTH110, PTH113
    aside = path if is_device else f"{path}.{os.getpid()}.tmp"
    try:
        with open(aside, "wb") as stream:  # noqa: PTH123
            stream.write(content)
        if not is_device:
            os.replace(aside, path)  # noqa: PTH105
    except OSError:
        if not is_device:
            remove(aside)
        raise


def remove(path: str) -> None:
    """Remove a file that may not be there."""
    try:  # noqa: SIM105 - contextlib takes long to import
        os.unlink(path)  # noqa: PTH108
    except OSError:
        pass
