"""How two cubins differ: notes, instructions, constants, debug information."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from cuwheel.binaries.cubin import change_of_code
from cuwheel.system.quantities import plural
from cuwheel.verify.compare.bytes import (
    change_of_data,
    count_differing,
    pair_differences,
    quoted_bytes,
)
from cuwheel.verify.compare.differences import Difference
from cuwheel.verify.compare.text_causes import causes_of_options, differing_pairs, stable_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.binaries.cubin import Cubin, CubinPart, ToolNote
    from cuwheel.verify.compare.differences import CauseKey, Location


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


class _Pair(NamedTuple):
    """A section of both cubins: its name without the kernel's, the kernel, and the contents."""

    name: str
    kernel: str
    a: bytes | None
    b: bytes | None

    @property
    def only(self) -> str:
        """Which one has it, if only one of them does."""
        if self.a is None:
            return "the second"
        return "the first" if self.b is None else ""


def compare_cubins(a: Cubin, b: Cubin, arch: str, location: Location) -> Iterator[Difference]:
    """Every difference between two cubins; what only follows from others comes last, as one.

    Args:
        a: the first.
        b: the second.
        arch: `90`, `90a`.
        location: where they are.
    """
    notes = tuple(_compare_notes(a.notes, b.notes, replace(location, part=_NOTE)))
    causes = tuple(key for one in notes for key in one.causes if key in _CODE_CAUSES)
    pairs = _differing(a, b)
    found = [
        *notes,
        *pair_differences(
            differing_pairs(a.symbols, b.symbols), replace(location, part=_NAMES), "name"
        ),
        *_compare_code(pairs, arch, location, causes),
        *_compare_debug(pairs, location),
        *_compare_data(pairs, location, causes),
    ]
    yield from found
    if tables := sorted({pair.name for pair in pairs if pair.name.startswith(_TABLES)}):
        yield Difference(
            location=replace(location, part=tables[0]),
            fact=f"tables differ: {', '.join(tables)}",
            causes=("names",) if found else (),
        )
    elif not found:
        yield Difference(location=location, fact="only its headers or its padding differ")


def _differing(a: Cubin, b: Cubin) -> list[_Pair]:
    """Sections that differ; paths and process numbers in a kernel's name make no other kernel."""
    named_a, named_b = _by_stable_name(a.parts), _by_stable_name(b.parts)
    pairs = []
    for name in {**named_a, **named_b}:
        one, other = named_a.get(name), named_b.get(name)
        part = one or other
        if part and not (one and other and one.content == other.content):
            stem = part.name.removesuffix(f".{part.kernel}") if part.kernel else part.name
            contents = (one.content if one else None), (other.content if other else None)
            pairs.append(_Pair(stem, part.kernel, *contents))
    return pairs


def _by_stable_name(parts: tuple[CubinPart, ...]) -> dict[tuple[str, int], CubinPart]:
    """Sections by name and number: a device link joins kernels that differ only by a path."""
    counts: Counter[str] = Counter()
    found = {}
    for part in parts:
        name = stable_name(part.name)
        counts[name] += 1
        found[name, counts[name]] = part
    return found


def _compare_notes(
    a: tuple[ToolNote, ...], b: tuple[ToolNote, ...], location: Location
) -> Iterator[Difference]:
    """What the tools noted of themselves: the release, the options."""
    if len(a) != len(b):
        fact = f"notes of {plural(len(a), 'tool')}; of {plural(len(b), 'tool')} in the second"
        yield Difference(location=location, fact=fact)
    for one, other in zip(a, b, strict=False):
        who, who_else = ((note.tool, note.release, note.build) for note in (one, other))
        if who != who_else:
            yield Difference(
                location=location,
                fact="another tool, or another release of it, made it",
                a=", ".join(who),
                b=", ".join(who_else),
                causes=("cuda-compiler",) if one.tool == other.tool else (),
            )
        if one.options != other.options:
            yield Difference(
                location=location,
                fact=f"{one.tool} recorded other options",
                a=one.options,
                b=other.options,
                causes=causes_of_options(one.options, other.options),
            )


def _compare_code(
    pairs: list[_Pair], arch: str, location: Location, causes: tuple[CauseKey, ...]
) -> Iterator[Difference]:
    for pair in pairs:
        if pair.name == _CODE:
            at = replace(location, part=_CODE, kernel=pair.kernel)
            yield Difference(location=at, fact=_code_fact(pair, arch), causes=causes)


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


def _compare_debug(pairs: list[_Pair], location: Location) -> Iterator[Difference]:
    found = [pair for pair in pairs if pair.name.startswith(_DEBUG)]
    if not found:
        return
    names = ", ".join(sorted({pair.name for pair in found}))
    owners = {pair.only for pair in found}
    whose = (
        f"only {owners.pop()} has" if len(owners) == 1 and "" not in owners else "both differ in"
    )
    texts = [change_of_data(pair.a, pair.b).pairs for pair in found if pair.a and pair.b]
    one, other = next(filter(None, texts), [("", "")])[0]
    yield Difference(
        location=replace(location, part=found[0].name),
        fact=f"{whose} debug information: {names}",
        a=quoted_bytes(one),
        b=quoted_bytes(other),
        causes=("line-information",),
    )


def _compare_data(
    pairs: list[_Pair], location: Location, causes: tuple[CauseKey, ...]
) -> Iterator[Difference]:
    """Constants, variables, sizes of memory: what is neither code nor a table."""
    for pair in pairs:
        if pair.name == _CODE or pair.name.startswith((*_DEBUG, *_TABLES, _NOTE)):
            continue
        at = replace(location, part=pair.name, kernel=pair.kernel)
        if pair.a is None or pair.b is None:
            yield Difference(location=at, fact=f"only {pair.only} has it", causes=causes)
        else:
            yield from _compare_content(pair.a, pair.b, at, causes)


def _compare_content(
    a: bytes, b: bytes, location: Location, causes: tuple[CauseKey, ...]
) -> Iterator[Difference]:
    change = change_of_data(a, b)
    yield from pair_differences(change.pairs, location, "text")
    if not change.is_all:
        fact = f"{count_differing(a, b):,} of {plural(max(len(a), len(b)), 'byte')} differ"
        yield Difference(location=location, fact=fact, causes=causes)
