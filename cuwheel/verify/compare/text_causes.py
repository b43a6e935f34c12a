"""Which known cause makes two texts differ: named only where it explains all of the difference."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cuwheel.verify.compare.differences import CauseKey


# `tmpxft_<process>_<number>-<number>_a.compute_90.cudafe1.cpp`; in a function's name all are `_`.
_TEMPORARY = re.compile(r"tmpxft_[0-9a-f]{8}_[0-9a-f]{8}[-_]\d+")
# A folder before a file's name; at least one of two that are compared has to show that it is one.
_FOLDER = re.compile(r"(?<![\w.:/+-])(?:[\w.+@=~-]*/)(?:[\w.+@=~,-]*/)*(?=[\w.+@~-])")
_CERTAIN_FOLDER = re.compile(r"(?:-\w|[\w-]+=)?\.{0,2}/")  # `/a/`, `../a/`, `-I/a/`, `--file=/a/`
# What `__DATE__`, `__TIME__` and `__TIMESTAMP__` say (C standard; GCC's manual), and ISO 8601.
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


def causes_of_texts(a: str, b: str) -> tuple[CauseKey, ...]:
    """The causes that explain how two texts differ; none where they don't explain all of it."""
    if a == b or _hidden(a, tuple(_HIDERS)) != _hidden(b, tuple(_HIDERS)):
        return ()
    needed = list(_HIDERS)
    for key in _HIDERS:
        rest = [other for other in needed if other != key]
        if _hidden(a, rest) == _hidden(b, rest):
            needed = rest
    if "build-path" in needed:
        cause = _path_cause(a, b)
        if cause is None:
            return ()
        needed[needed.index("build-path")] = cause
    return tuple(needed)


def causes_of_options(a: str, b: str) -> tuple[CauseKey, ...]:
    """What it means that a tool of CUDA noted other options."""
    causes: list[CauseKey] = []
    for key, pattern in _OPTIONS.items():
        if pattern.findall(a) != pattern.findall(b):
            causes.append(key)
        a, b = pattern.sub("", a), pattern.sub("", b)
    if a.split() != b.split():
        causes += causes_of_texts(a, b) or ("ptxas-options",)
    return tuple(causes)


def causes_of_pairs(pairs: Iterable[tuple[str, str]]) -> tuple[CauseKey, ...]:
    """The causes that explain all pairs together; none where one pair stays unexplained."""
    found = [causes_of_texts(a, b) for a, b in pairs]
    return tuple(dict.fromkeys(key for keys in found for key in keys)) if all(found) else ()


def differing_pairs(a: Iterable[str], b: Iterable[str]) -> list[tuple[str, str]]:
    """What two lists of texts don't have in common, paired; an empty one where there is none.

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
    left = [text for texts in by_form.values() for text in texts]
    alone += [""] * (len(left) - len(alone))
    left += [""] * (len(alone) - len(left))
    return pairs + list(zip(alone, left, strict=True))


def stable_name(name: str) -> str:
    """A symbol's or section's name without what paths and process numbers put into it."""
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
        found = _MODULE_ID.match(text, match.end())
        offset = _end_of_module(text, match, found) if found else match.end()
        out += _hide_part(text[match.start() : offset], match, found, part) if found else match[0]
        if not match[0] and not found:  # an empty match, at the text's beginning
            break
    out += text[offset:]
    return _STUB_LENGTH.sub("", out) if part == "process" else out


def _hide_part(text: str, match: re.Match[str], found: re.Match[str], part: str) -> str:
    """The same for one module id with what stands before it."""
    first = match.start()
    tail = found.end() + int(found["size"]) + 1 - first
    if part == "path":
        return f"{text[: found.start('path') - first]}{'0' * 8}{text[found.end('path') - first :]}"
    if not _PROCESS_TAIL.fullmatch(text[tail:]):
        return text
    head = len(match[0])
    return f"{_NUMBER.sub('0', text[:head])}{text[head:tail]}0"


def _end_of_module(text: str, match: re.Match[str], found: re.Match[str]) -> int:
    """Where a module id ends: given by a number before it, else by the end of the identifier."""
    tail = found.end() + int(found["size"]) + 1
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


def _path_cause(a: str, b: str) -> CauseKey | None:
    """The cause where what differs is surely a path: absolute, or with `./` or `../` in front."""
    pairs = differing_folders(a, b)
    if not pairs or not all(any(map(_CERTAIN_FOLDER.match, pair)) for pair in pairs):
        return None
    is_relative = any(one.startswith("../") for pair in pairs for one in pair)
    return "relative-path" if is_relative else "build-path"


def differing_folders(a: str, b: str) -> list[tuple[str, str]]:
    """The folders of two texts that differ in nothing else."""
    pairs = itertools.zip_longest(_FOLDER.findall(a), _FOLDER.findall(b), fillvalue="")
    return [(one, other) for one, other in pairs if one != other]


_HIDERS: dict[CauseKey, Callable[[str], str]] = {
    "temporary-name": lambda text: _TEMPORARY.sub("tmpxft", text),
    "module-path": lambda text: _hide_module(text, "path"),
    "module-process": lambda text: _hide_module(text, "process"),
    "build-time": lambda text: _TIME.sub("<time>", text),
    "build-path": lambda text: _FOLDER.sub("", text),
}
