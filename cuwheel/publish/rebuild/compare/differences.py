"""Differences between two wheels that should be equal, and the causes that cuwheel can name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from cuwheel.base.system.output.documents import Schema

CauseKey = Literal[
    "build-path",
    "build-time",
    "temporary-name",
    "module-path",
    "module-process",
    "line-information",
    "ptxas-options",
    "split-compile",
    "cuda-compiler",
    "host-compiler",
    "archs",
    "fatbin-compression",
    "member-times",
    "member-modes",
    "member-order",
    "deflate",
    "wheel-generator",
    "record",
    "build-id",
    "layout",
    "names",
]


@dataclass(frozen=True, kw_only=True)
class DifferenceCause:
    """A reason for other bytes though nothing was changed on purpose.

    Attributes:
        remedy: what takes it away; empty for what only follows from another difference.
    """

    text: str
    remedy: str = ""


# Each was produced with nvcc 13.0.88 and found again: tests/publish/rebuild/compare/.
CAUSES: dict[CauseKey, DifferenceCause] = {
    "build-path": DifferenceCause(
        text="the path of a source or of the toolkit is in the file (`__FILE__`, an assertion, "
        "an option that a tool records)",
        remedy="build at one fixed path, or map it: -ffile-prefix-map=<folder>=/src, and"
        " -Xcompiler for nvcc",
    ),
    "build-time": DifferenceCause(
        text="the time of the build is in the file (from `__DATE__`, `__TIME__` or a script)",
        remedy="set SOURCE_DATE_EPOCH; what reads the clock itself needs a patch",
    ),
    "temporary-name": DifferenceCause(
        text="nvcc names a temporary file by its process number, and the symbols keep the name",
        remedy="compile with -objtemp, or strip the library: -Wl,-s",
    ),
    "module-path": DifferenceCause(
        text="nvcc's module id contains a checksum of the source's absolute path",
        remedy="-Xcudafe --orig_src_path_name=/src/<path in the project>, or one fixed path",
    ),
    "module-process": DifferenceCause(
        text="nvcc's module id contains its process number, as for every source without an "
        "external symbol",
        remedy="-frandom-seed=<path in the project> (nvcc 12.9 or newer)",
    ),
    "line-information": DifferenceCause(
        text="line or debug information, which contains paths and times of the sources "
        "(-lineinfo, -G, -g)",
        remedy="remove -lineinfo, or build at a fixed path with fixed times of all sources",
    ),
    "ptxas-options": DifferenceCause(
        text="the tool that made the device code recorded other options",
        remedy="give both builds the same options, for each arch",
    ),
    "split-compile": DifferenceCause(
        text="-split-compile was given another number, which is recorded in the device code",
        remedy="use a constant number, not 0 and not one that depends on the machine",
    ),
    "cuda-compiler": DifferenceCause(
        text="the device code was made by another release of CUDA's tools", remedy="pin the toolkit"
    ),
    "host-compiler": DifferenceCause(
        text="another host compiler or linker recorded its name",
        remedy="pin the host compiler: a conda toolchain has its own",
    ),
    "archs": DifferenceCause(
        text="they were built for other archs", remedy="name the archs, never `native`"
    ),
    "fatbin-compression": DifferenceCause(
        text="equal device code is packed in another way",
        remedy="the same --compress-mode, and the same fatbinary",
    ),
    "member-times": DifferenceCause(
        text="members of the archive have other times",
        remedy="set SOURCE_DATE_EPOCH, or rewrite the wheel",
    ),
    "member-modes": DifferenceCause(
        text="members of the archive have other modes; they follow the umask",
        remedy="umask 022, or rewrite the wheel",
    ),
    "member-order": DifferenceCause(
        text="members of the archive are in another order",
        remedy="rewrite the wheel with sorted members",
    ),
    "deflate": DifferenceCause(
        text="equal content was compressed to other bytes: another level, or another zlib",
        remedy="write both with one zlib, or store members as they are",
    ),
    "wheel-generator": DifferenceCause(
        text="another build backend, or release of it, wrote the wheel",
        remedy="pin the build requirements",
    ),
    "record": DifferenceCause(text="RECORD has the hashes of members that differ"),
    "build-id": DifferenceCause(text="the build id is a hash of what the linker was given"),
    "layout": DifferenceCause(text="addresses changed because other parts moved"),
    "names": DifferenceCause(text="a table of names changed with the names"),
}


@dataclass(frozen=True, kw_only=True)
class Location:
    """A place in which two wheels differ, from the outside in; parts that don't apply are empty."""

    member: str = ""
    section: str = ""
    fatbin: int = 0
    code: str = ""
    part: str = ""
    kernel: str = ""

    def differs(
        self, fact: str, *, a: str = "", b: str = "", causes: tuple[CauseKey, ...] = ()
    ) -> DifferenceData:
        """Return a difference at this place."""
        return DifferenceData(**vars(self), fact=fact, a=a, b=b, causes=causes)


@dataclass(frozen=True, kw_only=True)
class DifferenceData(Location):
    """One thing in which two wheels differ.

    Attributes:
        member: the file in the wheel; empty for the archive itself.
        section: of an ELF file, `.nv_fatbin`.
        fatbin: number of the fat binary in that file, from 1; 0 where it is none.
        code: kind and arch of device code, `SASS sm_90`, `PTX compute_90`.
        part: what of the device code: a section of a cubin, such as `.note.nv.tkinfo`.
        kernel: the function, as the compiler mangled its name.
        fact: what differs, one clause.
        a: what the first wheel says there, where that is a text.
        b: the same of the second.
        causes: all that explain it; none where the evidence shows none.
        is_consequence: whether it only follows from other differences.
    """

    fact: str
    a: str
    b: str
    causes: tuple[CauseKey, ...]
    is_consequence: bool = field(init=False)

    def __post_init__(self) -> None:
        """Derive from the causes whether it is a consequence."""
        is_consequence = all(not CAUSES[key].remedy for key in self.causes)
        object.__setattr__(self, "is_consequence", bool(self.causes) and is_consequence)


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two wheels: its file name, SHA-256 and size in bytes."""

    file_name: str
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True)
class CountedCause:
    """A known cause of differences.

    Attributes:
        count: of the differences that it explains.
        text: the cause, one clause.
        remedy: what takes it away; empty for what only follows from another difference.
    """

    count: int
    text: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class WheelComparison:
    """What `comparison.json` holds, which `verify` and `rebuild` leave where bytes differ.

    Attributes:
        is_same: whether both wheels are the same bytes.
        a: the first.
        b: the second.
        causes: the known ones, by their names, most differences first.
        unexplained: how many differences have no known cause.
        differences: all of them.
    """

    SCHEMA: ClassVar[Schema] = Schema("comparison", "1.1")

    is_same: bool = field(init=False)
    a: Side
    b: Side
    causes: dict[str, CountedCause] = field(init=False)
    unexplained: int = field(init=False)
    differences: tuple[DifferenceData, ...]

    def __post_init__(self) -> None:
        """Count the causes."""
        counts = Counter(key for difference in self.differences for key in difference.causes)
        causes = {
            key: CountedCause(count=count, text=CAUSES[key].text, remedy=CAUSES[key].remedy)
            for key, count in counts.most_common()
        }
        object.__setattr__(self, "is_same", self.a.sha256 == self.b.sha256)
        object.__setattr__(self, "causes", causes)
        object.__setattr__(
            self, "unexplained", sum(not difference.causes for difference in self.differences)
        )
