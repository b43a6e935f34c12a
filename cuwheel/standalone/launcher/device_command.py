"""The command lines of cicc and ptxas, and what of them a result depends on.

Part of the compiler launcher (`device_code`), so written for a short start. Standard library only,
Python 3.9 or newer.
"""

from __future__ import annotations

import os

# Files that cicc opens, by the option that names them: nvcc --dryrun of 13.0 to 13.5.
_OPENED = frozenset(
    (
        *("-o", "--module_id_file_name", "--gen_c_file_name", "--stub_file_name"),
        "--gen_device_file_name",
    )
)
# Texts for the stub that the front end writes, anew for each platform.
_NAMES = frozenset(("--orig_src_file_name", "--orig_src_path_name", "--include_file_name"))
# What the front end is told of the host compiler and of the host: what follows of it for device
# code is in the bitcode.
_HOST = ("--gnu_version", "--unsigned_chars", "--unsigned_wchar_t", "--arm_cross_compiler")
# What the front end doesn't know, and what it has its own name for.
_BACK_END = (
    *("-ftz=", "-prec_div=", "-prec_sqrt=", "-fmad=", "-fma=", "-fast-math", "-O", "-opt"),
    *("-maxreg", "-lnk", "-llc", "-Ofast-compile", "--no-version-ident"),
)
# With these a program writes more than its output, or what it writes holds paths and times.
_NOT_SHARED = (
    *("-g", "--device-debug", "-lineinfo", "--generate-line-info", "-generate-line-info"),
    *("-src-in-ptx", "--source-in-ptx", "-time", "--time", "-keep", "-dlto", "--emit", "-dump"),
    *("--dump", "-dryrun", "@", "-optf", "--options-file", "-split-compile", "--split-compile"),
    *("-enable-tile", "-nvvmir-library"),
)


class Words:
    """The command line of cicc or ptxas, taken apart.

    Attributes:
        program: its path.
        output: what it writes.
        source: what it reads; empty where that isn't one file.
        opened: the other files that it reads or writes, by option.
        rest: its other words, in their order.
    """

    def __init__(self, program: str, arguments: list[str]) -> None:
        self.program = program
        self.output = self.source = ""
        self.opened: list[tuple[str, str]] = []
        self.rest: list[str] = []
        sources = []
        words = iter(arguments)
        for word in words:
            name, equals, value = word.partition("=")
            if name in _OPENED | _NAMES:
                value = value if equals else next(words, "")
                self._take(name, value)
            elif word.endswith((".ii", ".ptx")) and word[0] != "-":
                sources.append(word)
            else:
                self.rest.append(word)
        if len(sources) == 1:
            self.source = sources[0]

    def _take(self, name: str, value: str) -> None:
        if name == "-o":
            self.output = value
        elif name in _OPENED:
            self.opened.append((name, os.path.abspath(value)))  # noqa: PTH100
        else:
            self.rest += [name, value]

    @property
    def can_be_shared(self) -> bool:
        """Whether its output is all that it makes, and follows from input and options."""
        if not self.source or not self.output:
            return False
        return not any(word.startswith(_NOT_SHARED) for word in self.rest)

    def key_words(self) -> list[str]:
        """What a result depends on, besides its input: names and facts of the host left out."""
        kept = []
        words = iter(self.rest)
        for word in words:
            if word in _NAMES:
                next(words, "")
            elif not word.startswith(_HOST):
                kept.append(word)
        return kept

    def as_called(self) -> list[str]:
        """The whole command line."""
        files = [one for pair in self.opened for one in pair]
        return [self.program, *self.rest, *files, self.source, "-o", self.output]

    def front_end(self, bitcode: str) -> list[str]:
        """The command that runs cicc's front end alone and writes what it hands on."""
        kept = []
        arch = ""
        rest = iter(self.rest)
        for word in rest:
            if word == "-arch":
                arch = next(rest, "")
            elif word.startswith("-arch="):
                arch = word.partition("=")[2]
            elif word != "-m64" and not word.startswith(_BACK_END):
                kept.append(word)
        files = [one for pair in self.opened for one in pair]
        return [
            *(self.program, "-lgenfe", "--nv_arch", arch, "--m64", *kept, *files),
            *("--emit-llvm-bc", self.source, "-o", bitcode),
        ]
