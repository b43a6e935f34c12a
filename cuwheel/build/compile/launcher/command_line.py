"""Command lines of nvcc and GCC, parsed into options, values and sources.

nvcc takes each option by exactly the two names that its help lists, with a value behind an equals
sign or in the next word; all else it refuses.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterator

# Options with a value: nvcc --help of 13.0, and two that it doesn't name; GCC's manual, "Option
# Summary". A value must be taken neither for a source nor for an option.
NVCC_VALUES = frozenset(
    """
    --output-file -o --pre-include -include --library -l --define-macro -D --undefine-macro -U
    --include-path -I --system-include -isystem --library-path -L --output-directory -odir
    --compiler-bindir -ccbin --archiver-binary -arbin --cudart -cudart --cudadevrt -cudadevrt
    --libdevice-directory -ldir --target-directory -target-dir --optimization-info -opt-info
    --optimize -O --Ofast-compile -Ofc --dopt -dopt --ftemplate-backtrace-limit
    -ftemplate-backtrace-limit --ftemplate-depth -ftemplate-depth --x -x --std -std --machine -m
    --compiler-options -Xcompiler --linker-options -Xlinker --archive-options -Xarchive
    --ptxas-options -Xptxas --nvlink-options -Xnvlink --static-global-template-stub
    -static-global-template-stub --device-entity-has-hidden-visibility
    -device-entity-has-hidden-visibility --threads -t --split-compile -split-compile
    --split-compile-extended -split-compile-extended --fdevice-time-trace -fdevice-time-trace
    --keep-dir -keep-dir --time -time --run-args -run-args --input-drive-prefix -idp
    --dependency-drive-prefix -ddp --drive-prefix -dp --dependency-target-name -MT
    --dependency-output -MF --gpu-architecture -arch --gpu-code -code --generate-code -gencode
    --relocatable-device-code -rdc --entries -e --maxrregcount -maxrregcount --ftz -ftz --prec-div
    -prec-div --prec-sqrt -prec-sqrt --fmad -fmad --default-stream -default-stream --Werror -Werror
    --diag-error -diag-error --diag-suppress -diag-suppress --diag-warn -diag-warn
    --host-linker-script -hls --brief-diagnostics -brief-diag --jump-table-density -jtd
    --device-stack-protector -device-stack-protector --compress-mode -compress-mode --frandom-seed
    -frandom-seed --sanitize -sanitize --options-file -optf --qpp-config -qpp-config
    -Xcudafe -nvvmdir
    """.split()  # noqa: SIM905 - quotes around each word would hide the words
)
_HOST_VALUES = frozenset(
    """
    -o -I -isystem -iquote -idirafter -include -imacros -iprefix -iwithprefix -iwithprefixbefore
    -imultilib -imultiarch -D -U -A -L -l -x -MF -MT -MQ -Xlinker -Xassembler -Xpreprocessor
    -isysroot --sysroot -B -T -Tbss -Tdata -Ttext -u -z -e -R -aux-info -dumpbase -dumpbase-ext
    -dumpdir --param -wrapper -specs
    """.split()  # noqa: SIM905 - likewise
)
# A value may follow these directly; nvcc's help documents it for all letters, and takes these.
_NVCC_ATTACHED = ("-I", "-D", "-U")
_HOST_ATTACHED = ("-isystem", "-iquote", "-idirafter", *_NVCC_ATTACHED, "-x", "-o")

_NVCC_SUFFIXES = (".cu", ".c", ".cc", ".cpp", ".cxx")
_HOST_SUFFIXES = (
    *(".c", ".cc", ".cp", ".cpp", ".CPP", ".cxx", ".c++", ".C"),
    *(".i", ".ii", ".s", ".S", ".sx"),
)
_BLANKS = " \t\n\v\f\r"
_NESTED = 20  # option files within option files; one may name itself


class Word:
    """An option with its value, or an input.

    Attributes:
        name: of the option; empty for an input.
        value: of the option; the path of an input.
    """

    def __init__(self, words: list[str], name: str, value: str) -> None:
        self.words = words
        self.name = name
        self.value = value

    def with_value(self, value: str) -> Word:
        """Return the same option with another value."""
        last = self.words[-1]
        start = last[: len(last) - len(self.value)]
        return Word([*self.words[:-1], start + value], self.name, value)


def read_nvcc(words: list[str]) -> list[Word]:
    """Parse nvcc's arguments."""
    read = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in NVCC_VALUES and equals:
            read.append(Word([word], name, value))
        elif name in NVCC_VALUES:
            read.append(_with_next(word, rest))
        elif word.startswith("-t") and word[2:].isdigit():
            read.append(Word([word], "-t", word[2:]))
        else:
            read.append(_alone(word, _NVCC_ATTACHED))
    return read


def read_host(words: list[str]) -> list[Word]:
    """Parse GCC's arguments."""
    rest = iter(words)
    return [
        _with_next(word, rest) if word in _HOST_VALUES else _alone(word, _HOST_ATTACHED)
        for word in rest
    ]


def _with_next(word: str, rest: Iterator[str]) -> Word:
    value = next(rest, None)
    return Word([word], word, "") if value is None else Word([word, value], word, value)


def _alone(word: str, attached: tuple[str, ...]) -> Word:
    if not word.startswith("-") or word == "-":  # standard input
        return Word([word], "", word)
    for name in attached:
        if word.startswith(name):
            return Word([word], name, word[len(name) :])
    return Word([word], word, "")


def nvcc_sources(read: list[Word]) -> list[str]:
    """Return what is compiled; `-x` holds for all inputs, wherever it is."""
    suffixes = ("",) if any(word.name in {"-x", "--x"} for word in read) else _NVCC_SUFFIXES
    return [word.value for word in read if not word.name and word.value.endswith(suffixes)]


def host_sources(read: list[Word]) -> list[str]:
    """Return what is compiled; `-x` holds for the inputs behind it."""
    sources = []
    suffixes: tuple[str, ...] = _HOST_SUFFIXES
    for word in read:
        if word.name == "-x":
            suffixes = _HOST_SUFFIXES if word.value == "none" else ("",)
        elif not word.name and word.value.endswith(suffixes):
            sources.append(word.value)
    return sources


def with_nvcc_files(words: list[str], depth: int = 0) -> list[str]:
    """Replace option files by their content, as nvcc reads it: single quotes mean nothing in it."""
    expanded = []
    for word in read_nvcc(words):
        texts = (
            _texts_of(word.value.split(",")) if word.name in {"-optf", "--options-file"} else None
        )
        if texts is None or depth == _NESTED:
            expanded += word.words
            continue
        for text in texts:
            words_of_file = [_as_argument(part) for part in split(text, '"')]
            expanded += with_nvcc_files(words_of_file, depth + 1)
    return expanded


def _as_argument(word: str) -> str:
    """Return the argument for a word of a file, from which nvcc removes quotes a second time."""
    rest = iter(word)
    escaped = (letter + next(rest, "") if letter == "\\" else letter for letter in rest)
    return "".join(letter for letter in escaped if letter != '"')


def with_host_files(words: list[str], depth: int = 0) -> list[str]:
    """Replace `@file` arguments by the files' content, as GCC reads them."""
    expanded = []
    for word in words:
        texts = _texts_of([word[1:]]) if word.startswith("@") else None
        if texts is None or depth == _NESTED:
            expanded.append(word)
        else:
            expanded += with_host_files(split(texts[0], "\"'"), depth + 1)
    return expanded


def _texts_of(paths: list[str]) -> list[str] | None:
    """Read files; None where one can't be read, which the compiler will report."""
    texts = []
    try:
        for path in paths:
            with open(path, encoding="utf-8", errors="surrogateescape") as stream:  # noqa: PTH123
                texts.append(stream.read())
    except OSError:
        return None
    return texts


def split(text: str, quotes: str, *, verbatim: bool = False) -> list[str]:
    """Split a text with options into words.

    Args:
        verbatim: quotes and backslashes stay in the words, as in the variables that nvcc reads; in
            files a backslash takes the next character as it is.
    """
    words: list[str] = []
    word: str | None = None
    quote = ""
    rest = iter(text)
    for character in rest:
        if character in _BLANKS and not quote:
            words += [] if word is None else [word]
            word = None
            continue
        word = word or ""
        if character == "\\" and not verbatim:
            word += next(rest, "")
        elif character == quote or (character in quotes and not quote):
            quote = "" if quote else character
            word += character if verbatim else ""
        else:
            word += character
    return words if word is None else [*words, word]
