"""Whether two outputs of cicc's front end can only become the same PTX.

They differ between platforms where a `bool` or a plain `char` is passed: as NVIDIA's front end has
it, `i8 signext` for x86-64 and `i8 zeroext` for arm64. By LLVM's manual ("Parameter Attributes")
these say how a value is extended where it is passed in a register; of a function that is inlined
into its callers nothing is passed. So the two are read as text, by `llvm-dis`, and compared without
these words and without the names of headers, but only where they can't reach the PTX:

- in functions of the file itself, in calls of those, and in calls of nothing (`call void null`,
  what the front end makes of a call of a host function); never in kernels, whose parameters the
  host passes, nor in calls of functions that are elsewhere;
- and only where the PTX has no function but kernels: all others were inlined, or dropped.

Whatever else follows of an unsigned `char`, a `zext` for a `sext` or another constant, is another
text. docs/adr/0044. Part of the compiler launcher, so written for a short start. Standard library
only, Python 3.9 or newer.
"""

from __future__ import annotations

import io
import os
import re

if __package__:
    from cuwheel.standalone.launcher import kept_files
else:  # in a build these scripts lie side by side
    import kept_files  # type: ignore[import-not-found,no-redef]

# For archs before Blackwell the bitcode is LLVM 7's, where pointers have types; LLVM 15 to 21 read
# it without them, and a difference could be lost. For later archs it is LLVM 20's, which has none;
# LLVM 14 refuses that.
_TYPED = ("llvm-dis-14", "llvm-dis-13", "llvm-dis-11")
_UNTYPED = ("llvm-dis-21", "llvm-dis-20", "llvm-dis-19", "llvm-dis-18", "llvm-dis-17")
_OWN = re.compile(rb"^define (?:internal|linkonce_odr) [^@]*(@[\w.$]+|@\"[^\"]*\")\(", re.MULTILINE)
_CALLEE = re.compile(rb"(@[\w.$]+|@\"[^\"]*\"|\bnull)\(")
_EXTENSION = re.compile(rb"\b(?:signext|zeroext) ")
# Names of files, for debuggers alone: code for these isn't shared.
_FILE_NAME = re.compile(rb"!DIFile\(.*\)")
_FUNCTION = re.compile(rb"^(?!\.extern\b).*\.func\b", re.MULTILINE)  # of PTX


def has_only_kernels(ptx: bytes) -> bool:
    """Whether PTX defines no function but kernels."""
    return not _FUNCTION.search(ptx)


def canonical_digest(bitcode: bytes, aside: str) -> bytes:
    """A digest over bitcode without what can't reach PTX that has only kernels.

    Args:
        bitcode: what the front end handed on.
        aside: a folder for files that are removed with it.

    Returns:
        Nothing where no `llvm-dis` on PATH reads it.
    """
    typed, untyped = _find(_TYPED), _find(_UNTYPED)
    text = _disassembled(typed, bitcode, aside) if typed else b""
    if not text and typed and untyped:
        text = _disassembled(untyped, bitcode, aside)
    return _digest(text) if text else b""


def _find(names: tuple[str, ...]) -> str:
    folders = os.environ.get("PATH", "").split(":")
    paths = (f"{folder}/{name}" for name in names for folder in folders)
    return next((path for path in paths if os.access(path, os.X_OK)), "")


def _disassembled(program: str, bitcode: bytes, aside: str) -> bytes:
    given, text = f"{aside}/asked.bc", f"{aside}/asked.ll"
    silent = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
    try:
        kept_files.write(given, bitcode)
        words = [program, given, "-o", text]
        pid = os.posix_spawn(program, words, os.environ, file_actions=[silent])
        return b"" if os.waitpid(pid, 0)[1] else kept_files.read(text)
    except OSError:
        return b""


def _digest(text: bytes) -> bytes:
    own = set(_OWN.findall(text)) | {b"null"}
    state = kept_files.hashed(b"")
    lines = io.BytesIO(text)
    lines.readline()  # names the file
    for line in lines:
        state.update(_cleaned(line, own))
    return bytes(state.digest())


def _cleaned(line: bytes, own: set[bytes]) -> bytes:
    if b"DIFile" in line:
        return _FILE_NAME.sub(b"", line)
    if b"ext " not in line:
        return line
    if not _OWN.match(line):
        callee = _CALLEE.search(line, line.find(b"call ")) if b"call " in line else None
        if not callee or callee[1] not in own:
            return line
    return _EXTENSION.sub(b"", line)
