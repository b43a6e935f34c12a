"""Comparison of data that may hold texts, and known causes of differing texts."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from cuwheel.base.system.quantities import plural
from cuwheel.publish.rebuild.compare.differences import CauseKey, DifferenceData, Location

# `tmpxft_<process>_<number>-<number>_a.compute_90.cudafe1.cpp`; in a function's name all are `_`.
_TEMPORARY = re.compile(r"tmpxft_[0-9a-f]{8}_[0-9a-f]{8}[-_]\d+")
# A folder before a file's name; at least one of two that are compared has to show that it is one.
_FOLDER = re.compile(r"(?<![\w.:/+-])(?:[\w.+@=~-]*/)(?:[\w.+@=~,-]*/)*(?=[\w.+@~-])")
_CERTAIN_FOLDER = re.compile(r"(?:-\w|[\w-]+=)?\.{0,2}/")  # `/a/`, `../a/`, `-I/a/`, `--file=/a/`
# `__DATE__`, `__TIME__` and `__TIMESTAMP__` (C standard; GCC's manual), and ISO 8601.
_TIME = re.compile(
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?"
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d (?:\d\d:\d\d:\d\d )?\d{4}"
    r"|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b\d\d:\d\d:\d\d\b"
)
# nvcc's module id, read off nvcc 13.0.88: `<crc32 of the path>_<length>_<file name>_<tail>`, where
# the tail is an external symbol's name or a checksum of it, or `<checksum>_<process>`. A number
# before it gives the length of the identifier that it is the end of.
_MODULE = re.compile(
    r"(?P<length>\d{1,6})(?P<space>_GLOBAL__N__|_INTERNAL_|def_module_id_str_"
    r"|__cudaRegisterLinkedBinary_|__fatbinwrap_)"
    r"|__nv_static_(?P<own>\d{1,6})_(?=_[0-9a-f]{8}_\d+_)"
    r"|(?:__cudaRegisterLinkedBinary|__fatbinwrap|\bdef |^)(?=_[0-9a-f]{8}_\d+_)"
)
_MODULE_ID = re.compile(r"_?(?P<path>[0-9a-f]{8})_(?P<size>\d{1,6})_")
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"\w*")
_SURE_TAIL = re.compile(r"[0-9a-f]{8}(?:_\d+)?")
_PROCESS_TAIL = re.compile(r"[0-9a-f]{8}_\d+")
# The length of a stub's name follows from that of the module id in it.
_STUB_LENGTH = re.compile(r"\d+(?=__device_stub__)")
_OPTIONS: dict[CauseKey, re.Pattern[str]] = {
    "split-compile": re.compile(r"--?split-compile(?:=|\s+)\S+"),
    "line-information": re.compile(
        r"(?<!\S)(?:--generate-line-info|--?lineinfo|--device-debug|-G|-g)(?!\S)"
    ),
}
# Printable characters, and the zeros behind them. That at least one zero has to be there is no part
# of the pattern: it would be tried again from each character of a long run.
_RUN = re.compile(rb"([\t\n\r\x20-\x7e]{4,})\0*")
_SHOWN = 120  # characters of a text
_UNKNOWN_SHOWN = 20  # texts of one location that differ for no known cause


def causes_of_texts(a: str, b: str) -> tuple[CauseKey, ...]:
    """Return the causes that explain all of how two texts differ; else none."""
    if a == b or _hidden(a, tuple(_HIDERS)) != _hidden(b, tuple(_HIDERS)):
        return ()
    needed = list(_HIDERS)
    for key in _HIDERS:
        rest = [other for other in needed if other != key]
        if _hidden(a, rest) == _hidden(b, rest):
            needed = rest
    if "build-path" in needed:
        pairs = differing_folders(a, b)
        if not pairs or not all(any(map(_CERTAIN_FOLDER.match, pair)) for pair in pairs):
            return ()
    return tuple(needed)


def causes_of_options(a: str, b: str) -> tuple[CauseKey, ...]:
    """Return the causes of a difference in the options that a CUDA tool recorded."""
    causes: list[CauseKey] = []
    for key, pattern in _OPTIONS.items():
        if pattern.findall(a) != pattern.findall(b):
            causes.append(key)
        a, b = pattern.sub("", a), pattern.sub("", b)
    if a.split() != b.split():
        causes += causes_of_texts(a, b) or ("ptxas-options",)
    return tuple(causes)


def causes_of_pairs(pairs: Iterable[tuple[str, str]]) -> tuple[CauseKey, ...]:
    """Return the causes that explain all pairs together; none if one is unexplained."""
    causes = [causes_of_texts(a, b) for a, b in pairs]
    return tuple(dict.fromkeys(key for keys in causes for key in keys)) if all(causes) else ()


def differing_pairs(a: Iterable[str], b: Iterable[str]) -> list[tuple[str, str]]:
    """Pair the texts that two lists don't have in common; empty texts fill the shorter.

    Texts that a known cause makes differ are paired with each other, the rest in their order.
    """
    count_a, count_b = Counter(a), Counter(b)
    rest_a, rest_b = list((count_a - count_b).elements()), list((count_b - count_a).elements())
    by_form: dict[str, list[str]] = {}
    for text in rest_b:
        by_form.setdefault(_hidden(text, tuple(_HIDERS)), []).append(text)
    pairs, alone = [], []
    for text in rest_a:
        same = by_form.get(_hidden(text, tuple(_HIDERS)))
        if same:
            pairs.append((text, same.pop(0)))
        else:
            alone.append(text)
    rest = [text for texts in by_form.values() for text in texts]
    return pairs + list(itertools.zip_longest(alone, rest, fillvalue=""))


def stable_name(name: str) -> str:
    """Return a symbol's or section's name without parts from paths and process numbers."""
    return _hide_module(_hide_module(name, "path"), "process")


def _hidden(text: str, keys: Iterable[CauseKey]) -> str:
    for key in keys:
        text = _HIDERS[key](text)
    return text


def _hide_module(text: str, part: str) -> str:
    """Replace the path's checksum, or the process number, in every module id of a text."""
    out, offset = "", 0
    while match := _MODULE.search(text, offset):
        out += text[offset : match.start()]
        module = _MODULE_ID.match(text, match.end())
        offset = _end_of_module(text, match, module) if module else match.end()
        out += _hide_part(text[match.start() : offset], match, module, part) if module else match[0]
        if not match[0] and not module:  # an empty match, at the text's beginning
            break
    out += text[offset:]
    return _STUB_LENGTH.sub("", out) if part == "process" else out


def _hide_part(text: str, match: re.Match[str], module: re.Match[str], part: str) -> str:
    """Replace that part in one module id and the number in front of it."""
    first = match.start()
    tail = module.end() + int(module["size"]) + 1 - first
    if part == "path":
        return (
            f"{text[: module.start('path') - first]}{'0' * 8}{text[module.end('path') - first :]}"
        )
    if not _PROCESS_TAIL.fullmatch(text[tail:]):
        return text
    head = len(match[0])
    return f"{_NUMBER.sub('0', text[:head])}{text[head:tail]}0"


def _end_of_module(text: str, match: re.Match[str], module: re.Match[str]) -> int:
    """Return the end of a module id: by the number in front of it, else of the identifier."""
    tail = module.end() + int(module["size"]) + 1
    if match["own"]:
        return min(len(text), match.end() + int(match["own"]))
    if match["length"]:
        # `3__442_GLOBAL__N__`: the number is 42, and the name before it ends in 4.
        numbers = [int(match["length"][at:]) for at in range(len(match["length"]))]
        ends = sorted(match.start("space") + number for number in numbers)
        ends = [end for end in ends if tail < end <= len(text)]
        strict = [end for end in ends if _SURE_TAIL.fullmatch(text[tail:end])]
        return next(iter(strict or ends), len(text))
    name = _WORD.match(text, match.end())
    return name.end() if name else match.end()


def differing_folders(a: str, b: str) -> list[tuple[str, str]]:
    """Return the folders of two texts that differ in nothing else."""
    pairs = itertools.zip_longest(_FOLDER.findall(a), _FOLDER.findall(b), fillvalue="")
    return [(folder_a, folder_b) for folder_a, folder_b in pairs if folder_a != folder_b]


_HIDERS: dict[CauseKey, Callable[[str], str]] = {
    "temporary-name": lambda text: _TEMPORARY.sub("tmpxft", text),
    "module-path": lambda text: _hide_module(text, "path"),
    "module-process": lambda text: _hide_module(text, "process"),
    "build-time": lambda text: _TIME.sub("<time>", text),
    "build-path": lambda text: _FOLDER.sub("", text),
}


class BlobChange(NamedTuple):
    """Differences between two pieces of data.

    Attributes:
        pairs: texts that differ, the first of either being empty where only one has it.
    """

    pairs: list[tuple[str, str]]
    is_all: bool


def change_of_data(a: bytes, b: bytes) -> BlobChange:
    """Compare data that may hold texts, and differs."""
    texts_a, texts_b = ([match[1].decode("ascii") for match in texts_in(data)] for data in (a, b))
    pairs = differing_pairs(texts_a, texts_b)
    return BlobChange(pairs, bool(pairs) and _rest(a) == _rest(b))


def compare_data(
    a: bytes, b: bytes, location: Location, causes: tuple[CauseKey, ...] = ()
) -> Iterator[DifferenceData]:
    """Compare data: differing texts by their causes, other bytes as a count.

    Args:
        causes: of the other bytes.
    """
    change = change_of_data(a, b)
    yield from pair_differences(change.pairs, location, "text")
    if not change.is_all:
        fact = f"{count_differing(a, b):,} of {plural(max(len(a), len(b)), 'byte')} differ"
        yield location.differs(fact, causes=causes)


def texts_in(data: bytes) -> Iterator[re.Match[bytes]]:
    """Yield texts that a compiler left, printable and ended by a zero or by the end of the data.

    Each is group 1 of its match; all zeros behind it belong to the match.
    """
    for match in _RUN.finditer(data):
        if match.end() > match.end(1) or match.end() == len(data):
            yield match


def pair_differences(
    pairs: Iterable[tuple[str, str]], location: Location, noun: str
) -> Iterator[DifferenceData]:
    """Yield differences of texts, one for each set of known causes.

    A module id is in hundreds of names. Unexplained texts are reported one by one, up to a limit.

    Args:
        noun: of the texts, `line`.
    """
    groups: dict[tuple[CauseKey, ...], list[tuple[str, str]]] = {}
    for pair in pairs:
        groups.setdefault(causes_of_pairs([pair]), []).append(pair)
    unknown = groups.pop((), [])
    for causes, group in groups.items():
        fact = f"a {noun} differs"
        if len(group) > 1:
            fact = f"{plural(len(group), noun)} differ, the first of them shown"
        yield _pair_difference(group[0], location, fact, causes)
    for pair in unknown[:_UNKNOWN_SHOWN]:
        yield _pair_difference(pair, location, f"a {noun} differs", ())
    if len(unknown) > _UNKNOWN_SHOWN:
        fact = f"{plural(len(unknown) - _UNKNOWN_SHOWN, noun)} more"
        yield location.differs(fact)


def _pair_difference(
    pair: tuple[str, str], location: Location, fact: str, causes: tuple[CauseKey, ...]
) -> DifferenceData:
    a, b = map(quoted_bytes, pair)
    return location.differs(fact, a=a, b=b, causes=causes)


def count_differing(a: bytes, b: bytes) -> int:
    """Count bytes that differ; of unequal lengths also those that only one has."""
    return sum(x != y for x, y in zip(a, b, strict=False)) + abs(len(a) - len(b))


def quoted_bytes(text: str) -> str:
    """Return a text of a file, short and on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _rest(data: bytes) -> bytes:
    """Return what lies between the texts; zeros behind a text belong to it."""
    pieces, offset = [], 0
    for match in texts_in(data):
        pieces.append(data[offset : match.start()])
        offset = match.end()
    return b"".join([*pieces, data[offset:]])
