"""Files that the compile cache keeps: hashed, written whole, and read without following a link.

Part of the compiler launcher and the memory gate, so written for a short start. Standard library
only, Python 3.9 or newer.
"""

from __future__ import annotations

import os
import zlib

try:
    from _blake2 import blake2b  # hashlib takes long to import
except ImportError:
    from hashlib import blake2b

DIGEST_SIZE = 32  # bytes
_FAST = 1  # zlib's level: nvcc takes seconds for what this takes milliseconds


def hashed(content: bytes) -> blake2b:
    """A BLAKE2b state that has read some bytes and can read more."""
    return blake2b(content, digest_size=DIGEST_SIZE)


def digest(content: bytes) -> bytes:
    """BLAKE2b of some bytes, `DIGEST_SIZE` long."""
    return bytes(hashed(content).digest())


def pack(content: bytes) -> bytes:
    """Compressed, with a digest in front by which `unpack` sees damage."""
    packed = zlib.compress(content, _FAST)
    return digest(packed) + packed


def unpack(kept: bytes) -> bytes:
    """What was packed.

    Raises:
        ValueError: it was damaged.
    """
    packed = kept[DIGEST_SIZE:]
    if digest(packed) != kept[:DIGEST_SIZE]:
        raise ValueError("damaged")
    try:
        return zlib.decompress(packed)
    except zlib.error as problem:
        raise ValueError("damaged") from problem


def read(path: str) -> bytes:
    """The content of a file.

    Raises:
        OSError: it can't be read.
    """
    with open(path, "rb") as stream:  # noqa: PTH123 - pathlib takes long to import
        return stream.read()


def read_kept(path: str) -> bytes:
    """A file of a folder that all builds write to: no link, and nothing that would wait.

    Raises:
        OSError: there is none.
    """
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(number, "rb") as stream:  # noqa: PTH123
        return stream.read()


def read_held(file: int) -> bytes:
    """All of an open file."""
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, "rb", closefd=False) as stream:
        return stream.read()


def write(path: str, content: bytes) -> None:
    """Write a file where it is.

    Raises:
        OSError: it can't be written.
    """
    with open(path, "wb") as stream:  # noqa: PTH123
        stream.write(content)


def keep(path: str, content: bytes) -> None:
    """Write a file of the cache, and its folder; a full disk is no reason for a build to fail."""
    aside = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)  # noqa: PTH103, PTH120
        write(aside, content)
        os.replace(aside, path)  # noqa: PTH105
    except OSError:
        remove(aside)


def replace(path: str, content: bytes) -> None:
    """Write a file as compilers do: not into one that has another name too, but into a device.

    A file is whole or isn't there, also where a signal ends this.

    Raises:
        OSError: it can't be written.
    """
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113
        write(path, content)
        return
    aside = f"{path}.{os.getpid()}.tmp"
    try:
        write(aside, content)
        os.replace(aside, path)  # noqa: PTH105
    except OSError:
        remove(aside)
        raise


def remove(path: str) -> None:
    """Remove a file that may not be there."""
    try:  # noqa: SIM105 - contextlib takes long to import
        os.unlink(path)  # noqa: PTH108
    except OSError:
        pass
