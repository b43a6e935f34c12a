"""Whether two outputs of cicc's front end can only become the same PTX.

They differ between platforms where a `bool` or a plain `char` is passed: as NVIDIA's front end has
it, `i8 signext` for x86-64 and `i8 zeroext` for arm64. By LLVM's manual ("Parameter Attributes")
these say how a value is extended where it is passed in a register; of a function that is inlined
into its callers nothing is passed. So the two are read as text, by `llvm-dis`, and compared without
these words, but only where they can't reach the PTX:

- in functions of the file itself, in calls of those, and in calls of nothing (`call void null`,
  what the front end makes of a call of a host function); never in kernels, whose parameters the
  host passes, nor in calls of functions that are elsewhere;
- and only where the PTX has no function but kernels: all others were inlined, or dropped.

Whatever else follows of an unsigned `char`, a `zext` for a `sext` or another constant, is another
text. docs/adr/0044. Part of the compiler launcher, so written for a short start. Standard library
only, Python 3.9 or newer.
"""

from __future__ import annotations

import os
import re

if __package__:
    from cuwheel.standalone.launcher import kept_files
else:  # in a build these scripts lie side by side
    import kept_files  # type: ignore[import-not-found,no-redef]

# NVIDIA's bitcode is LLVM 7's. From 15 on pointers have no type, and a difference could be lost.
_PROGRAMS = ("llvm-dis-14", "llvm-dis-13", "llvm-dis-11", "llvm-dis")
_OWN = re.compile(rb"^define (?:internal|linkonce_odr) [^@]*(@[\w.$]+|@\"[^\"]*\")\(", re.MULTILINE)
_CALLEE = re.compile(rb"(@[\w.$]+|@\"[^\"]*\"|\bnull)\(")
_EXTENSION = re.compile(rb"\b(?:signext|zeroext) ")
_UNTYPED = re.compile(rb"^define .*(?<![%\w.])ptr[ ,)]", re.MULTILINE)
_FUNCTION = re.compile(rb"^(?!\.extern\b).*\.func\b", re.MULTILINE)  # of PTX


def find_disassembler() -> str:
    """The path of an `llvm-dis` that may be asked; empty: there is none."""
    folders = os.environ.get("PATH", "").split(":")
    paths = (f"{folder}/{name}" for name in _PROGRAMS for folder in folders)
    return next((path for path in paths if os.access(path, os.X_OK)), "")


def has_only_kernels(ptx: bytes) -> bool:
    """Whether PTX defines no function but kernels."""
    return not _FUNCTION.search(ptx)


def canonical_text(disassembler: str, bitcode: bytes, aside: str) -> bytes:
    """Bitcode as text, without what can't reach PTX that has only kernels; empty: can't be had.

    Args:
        disassembler: path of `llvm-dis`.
        bitcode: what the front end handed on.
        aside: a folder for files that are removed with it.
    """
    given, text = f"{aside}/asked.bc", f"{aside}/asked.ll"
    try:
        kept_files.write(given, bitcode)
        words = [disassembler, given, "-o", text]
        pid = os.posix_spawn(disassembler, words, os.environ)
        if os.waitpid(pid, 0)[1]:
            return b""
        content = kept_files.read(text)
    except OSError:
        return b""
    return b"" if _UNTYPED.search(content) else _without_extensions(content)


def _without_extensions(text: bytes) -> bytes:
    own = set(_OWN.findall(text)) | {b"null"}

    def cleaned(line: bytes) -> bytes:
        if not _OWN.match(line):
            callee = _CALLEE.search(line, line.find(b"call ")) if b"call " in line else None
            if not callee or callee[1] not in own:
                return line
        return _EXTENSION.sub(b"", line)

    # The first line names the file.
    return b"\n".join(cleaned(line) for line in text.split(b"\n")[1:])
