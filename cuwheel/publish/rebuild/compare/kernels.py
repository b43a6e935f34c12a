"""Comparison of device code, unpacked: cubins and PTX, kernel by kernel."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from cuwheel.base.formats.binaries.kernel_code import (
    Cubin,
    CubinPart,
    Ptx,
    ToolNote,
    change_of_code,
)
from cuwheel.base.system.quantities import plural
from cuwheel.publish.rebuild.compare.differences import CauseKey, DifferenceData, Location
from cuwheel.publish.rebuild.compare.texts import (
    causes_of_options,
    causes_of_pairs,
    change_of_data,
    compare_data,
    count_differing,
    differing_pairs,
    pair_differences,
    quoted_bytes,
    stable_name,
)

_FIRST_KNOWN = 70  # sm_70; older GPUs have instructions of another length
_CODE = ".text"
_NAMES = ".strtab"
_NOTE = ".note.nv.tkinfo"
_DEBUG = (
    *(".debug_line", ".debug_info", ".debug_abbrev", ".debug_str", ".debug_loc", ".debug_ranges"),
    *(".debug_macinfo", ".debug_aranges", ".debug_pubnames", ".nv_debug"),
)
# What follows from the code, the names and the options. The last two are a second form of the code,
# from which the driver makes instructions for later GPUs.
_TABLES = (
    *(_NAMES, ".symtab", ".shstrtab", ".rel", ".debug_frame", ".nv.info", ".nv.callgraph"),
    *(".nv.compat", ".note.nv.cuinfo", ".nv.capmerc", ".nv.merc"),
)
# With these the compiler makes other code of the same source.
_CODE_CAUSES = ("ptxas-options", "cuda-compiler")
# `.b8 name[12] = {78, 111, …}`: how PTX writes a text (PTX ISA, "Initializers").
_BYTES = re.compile(r"\.b8\s+([\w$]+)\[\d+\]\s*=\s*\{(\d+(?:\s*,\s*\d+)*)\}")
# Numbers as PTX writes them (PTX ISA, "Constants"), and not the ones in a register's name.
_NUMBER = re.compile(r"(?<![\w%$.])(?:0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|-?\d+)(?![\w.])")
_RELEASE = re.compile(r"^(?:\.version\b|//)")


class _Pair(NamedTuple):
    """A section of both cubins: its name without the kernel's, the kernel, and the contents."""

    name: str
    kernel: str
    a: bytes | None
    b: bytes | None

    @property
    def only(self) -> str:
        """The cubin that has it, if only one of them does."""
        if self.a is None:
            return "the second"
        return "the first" if self.b is None else ""


def compare_cubins(a: Cubin, b: Cubin, arch: str, location: Location) -> Iterator[DifferenceData]:
    """Compare cubins; what only follows from other differences comes last, as one.

    Args:
        arch: `90`, `90a`.
    """
    notes = tuple(_compare_notes(a.notes, b.notes, replace(location, part=_NOTE)))
    causes = tuple(key for note in notes for key in note.causes if key in _CODE_CAUSES)
    pairs = _differing(a, b)
    differences = [
        *notes,
        *pair_differences(
            differing_pairs(a.symbols, b.symbols), replace(location, part=_NAMES), "name"
        ),
        *(
            replace(location, part=_CODE, kernel=pair.kernel).differs(
                _code_fact(pair, arch), causes=causes
            )
            for pair in pairs
            if pair.name == _CODE
        ),
        *_compare_debug(pairs, location),
        *_compare_data(pairs, location, causes),
    ]
    yield from differences
    if tables := sorted({pair.name for pair in pairs if pair.name.startswith(_TABLES)}):
        yield replace(location, part=tables[0]).differs(
            f"tables differ: {', '.join(tables)}", causes=("names",) if differences else ()
        )
    elif not differences:
        yield location.differs("only its headers or its padding differ")


def _differing(a: Cubin, b: Cubin) -> list[_Pair]:
    """Return sections that differ; paths and process numbers in kernels' names are ignored."""
    named_a, named_b = _by_stable_name(a.parts), _by_stable_name(b.parts)
    pairs = []
    for name in {**named_a, **named_b}:
        part_a, part_b = named_a.get(name), named_b.get(name)
        part = part_a or part_b
        if part and not (part_a and part_b and part_a.content == part_b.content):
            stem = part.name.removesuffix(f".{part.kernel}") if part.kernel else part.name
            contents = (part_a.content if part_a else None), (part_b.content if part_b else None)
            pairs.append(_Pair(stem, part.kernel, *contents))
    return pairs


def _by_stable_name(parts: tuple[CubinPart, ...]) -> dict[tuple[str, int], CubinPart]:
    """Return sections by name and number: linked kernels may differ only by a path."""
    counts: Counter[str] = Counter()
    named = {}
    for part in parts:
        name = stable_name(part.name)
        counts[name] += 1
        named[name, counts[name]] = part
    return named


def _compare_notes(
    a: tuple[ToolNote, ...], b: tuple[ToolNote, ...], location: Location
) -> Iterator[DifferenceData]:
    """Compare releases and options that the tools recorded."""
    if len(a) != len(b):
        fact = f"notes of {plural(len(a), 'tool')}; of {plural(len(b), 'tool')} in the second"
        yield location.differs(fact)
    for note_a, note_b in zip(a, b, strict=False):
        tools = [(note.tool, note.release, note.build) for note in (note_a, note_b)]
        if tools[0] != tools[1]:
            yield location.differs(
                "another tool, or another release of it, made it",
                a=", ".join(tools[0]),
                b=", ".join(tools[1]),
                causes=("cuda-compiler",) if note_a.tool == note_b.tool else (),
            )
        if note_a.options != note_b.options:
            yield location.differs(
                f"{note_a.tool} recorded other options",
                a=note_a.options,
                b=note_b.options,
                causes=causes_of_options(note_a.options, note_b.options),
            )


def _code_fact(pair: _Pair, arch: str) -> str:
    if pair.a is None or pair.b is None:
        return f"only {pair.only} has this kernel"
    if int(arch.rstrip("af")) < _FIRST_KNOWN:
        return f"{plural(count_differing(pair.a, pair.b), 'byte')} of its code differ"
    change = change_of_code(pair.a, pair.b)
    if change.before != change.after:
        return f"other instructions: {change.before}, and {change.after} in the second"
    of_all = f"{change.changed} of {plural(change.before, 'instruction')} differ"
    if change.numbers == change.changed:
        return f"{of_all}, only in an immediate value"
    if change.numbers:
        return f"{of_all}, {change.numbers} of these only in an immediate value"
    return of_all


def _compare_debug(pairs: list[_Pair], location: Location) -> Iterator[DifferenceData]:
    sections = [pair for pair in pairs if pair.name.startswith(_DEBUG)]
    if not sections:
        return
    names = ", ".join(sorted({pair.name for pair in sections}))
    owners = {pair.only for pair in sections}
    has = f"only {owners.pop()} has" if len(owners) == 1 and "" not in owners else "both differ in"
    texts = [change_of_data(pair.a, pair.b).pairs for pair in sections if pair.a and pair.b]
    text_a, text_b = next(filter(None, texts), [("", "")])[0]
    yield replace(location, part=sections[0].name).differs(
        f"{has} debug information: {names}",
        a=quoted_bytes(text_a),
        b=quoted_bytes(text_b),
        causes=("line-information",),
    )


def _compare_data(
    pairs: list[_Pair], location: Location, causes: tuple[CauseKey, ...]
) -> Iterator[DifferenceData]:
    """Compare constants, variables, sizes of memory: what is neither code nor a table."""
    for pair in pairs:
        if pair.name == _CODE or pair.name.startswith((*_DEBUG, *_TABLES, _NOTE)):
            continue
        at = replace(location, part=pair.name, kernel=pair.kernel)
        if pair.a is None or pair.b is None:
            yield at.differs(f"only {pair.only} has it", causes=causes)
        else:
            yield from compare_data(pair.a, pair.b, at, causes)


def compare_ptx(a: Ptx, b: Ptx, location: Location) -> Iterator[DifferenceData]:
    """Compare two PTX texts."""
    differences = []
    pairs = differing_pairs(map(_readable, a.rest), map(_readable, b.rest))
    for line in pair_differences(pairs, location, "line"):
        is_release = _RELEASE.match(line.a) and _RELEASE.match(line.b) and not line.causes
        differences.append(replace(line, causes=("cuda-compiler",)) if is_release else line)
    differences += _compare_functions(a, b, location)
    yield from differences
    if a.debug != b.debug:
        fact = f"only the {'first' if a.debug else 'second'} has lines for the debugger"
        yield replace(location, part=".loc").differs(
            "lines for the debugger differ" if a.debug and b.debug else fact,
            causes=("line-information",),
        )
    elif not differences:
        yield location.differs("only the order of functions or empty lines differ")


def _readable(line: str) -> str:
    """Return a line with a text in place of the numbers that write it."""

    def text(match: re.Match[str]) -> str:
        codes = [int(number) & 0xFF for number in match[2].split(",")]
        return f".b8 {match[1]} = {bytes(codes).rstrip(bytes(1)).decode('ascii', 'replace')!r}"

    return _BYTES.sub(text, line)


def _compare_functions(a: Ptx, b: Ptx, location: Location) -> Iterator[DifferenceData]:
    named_a, named_b = (
        {stable_name(name): (name, lines) for name, lines in ptx.functions.items()}
        for ptx in (a, b)
    )
    for key in {**named_a, **named_b}:
        function_a, function_b = named_a.get(key), named_b.get(key)
        name = (function_a or function_b or (key, ()))[0]
        at = replace(location, part=".entry", kernel=name)
        if function_a is None or function_b is None:
            which = "first" if function_a else "second"
            yield at.differs(f"only the {which} has this function")
        elif function_a[1] != function_b[1]:
            yield _function_difference(function_a[1], function_b[1], at)


def _function_difference(
    a: tuple[str, ...], b: tuple[str, ...], location: Location
) -> DifferenceData:
    pairs = differing_pairs(a, b)
    causes: tuple[CauseKey, ...] = causes_of_pairs(pairs)
    if not pairs:
        return location.differs("its lines are in another order")
    fact = f"{plural(len(pairs), 'line')} differ"
    if [_NUMBER.sub("0", line) for line in a] == [_NUMBER.sub("0", line) for line in b]:
        fact += ", only in constants"
    line_a, line_b = pairs[0]
    return location.differs(fact, a=quoted_bytes(line_a), b=quoted_bytes(line_b), causes=causes)
