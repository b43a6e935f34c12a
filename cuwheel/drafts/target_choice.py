"""What a draft is built for and against: toolkit, framework, archs, Pythons, libraries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cuwheel.cuda.components import COMPONENTS
from cuwheel.drafts.draft import Call, Field, Note, find_out, guess
from cuwheel.model.link import DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuwheel.drafts.readers.finding import Finding
    from cuwheel.drafts.readers.survey import Survey

# What the other recipes start with: a toolkit whose compiler is on the package index, and the
# release of PyTorch that was built with it.
TOOLKIT = "13.0"
TORCH = "2.11.0"
ARCHS = ("80", "90", "100", "120")
_PATCH_ARCHS = "remove the list with a patch, as patches/causal_conv1d/0001 does"
_GIVEN = re.compile(r"NOT (?:\()?(?:DEFINED )?CMAKE_CUDA_ARCHITECTURES\b")
_STATIC = re.compile(r"_static(_nocallback)?$")
# CMake's names of imported targets and linker's names, where they aren't the component's.
_LIBRARIES = {"cuda": DRIVER, "cuda_driver": DRIVER}


def locations(findings: Iterable[Finding], most: int = 3) -> str:
    """`setup.py:4, setup.py:9, …`."""
    found = list(dict.fromkeys(one.where for one in findings))
    return ", ".join(found[:most]) + (", …" if len(found) > most else "")


def choose_framework(survey: Survey) -> Iterator[Field]:
    """The toolkit, and PyTorch where it is compiled against that."""
    if not survey.uses_torch:
        yield Field(name="toolkits", value=(TOOLKIT,))
        return
    notes = [guess(f"PyTorch {TORCH} was built with it"), *_about_torch(survey)]
    yield Field(name="toolkits", value=(TOOLKIT,), notes=tuple(notes))
    yield Field(
        name="framework", value=Call(name="Framework", given={"name": "torch", "version": TORCH})
    )


def _about_torch(survey: Survey) -> Iterator[Note]:
    for text in (*survey.system.requires, *survey.metadata.requires):
        try:
            asked = Requirement(text)
        except InvalidRequirement:
            continue
        if canonicalize_name(asked.name) == "torch" and not asked.specifier.contains(TORCH):
            yield find_out(
                f"whether it works with PyTorch {TORCH}: it requires {text}; the toolkit has to "
                "be the one that this release was built with"
            )


def choose_archs(survey: Survey) -> Field:
    """One arch for each generation of GPUs, and what keeps the source from taking them."""
    notes = [guess("machine code for one runs on all GPUs of its generation: Ampere, Hopper, …")]
    fixed = survey.relevant("gencode")
    if fixed and not _own_variable(survey):
        archs = sorted({one.name for one in fixed}, key=lambda arch: (len(arch), arch))
        ignored = (
            "PyTorch then adds none of TORCH_CUDA_ARCH_LIST"
            if survey.uses_torch
            else "`archs` and --arch then have no effect"
        )
        notes.append(
            find_out(
                f"{locations(fixed)} hard-codes -gencode for {', '.join(archs)}: {ignored}; "
                f"{_PATCH_ARCHS}"
            )
        )
    own = [
        one
        for one in survey.relevant("archs")
        if not _GIVEN.search(one.guard) and "CMAKE_CUDA_ARCH" not in one.name
    ]
    if own:
        notes.append(
            find_out(
                f"whether {locations(own)} set CMAKE_CUDA_ARCHITECTURES only where it isn't given"
            )
        )
    return Field(name="archs", value=ARCHS, notes=tuple(notes))


def _own_variable(survey: Survey) -> bool:
    return any("ARCH" in name for name in survey.variables() if not name.startswith("TORCH_"))


def choose_python(survey: Survey) -> Iterator[Field]:
    """One wheel for all Pythons where nothing uses Python's C interface."""
    settings = survey.metadata.tools.get("scikit-build", {}).get("wheel", {})
    stable = survey.of("stable ABI")
    if str(settings.get("py-api", "")).startswith("py"):
        note = guess(f'pyproject.toml, wheel.py-api = "{settings["py-api"]}"')
        yield Field(name="python", value="any", notes=(note,))
    elif stable:
        note = find_out(
            'whether one wheel serves all Pythons from one on (python="abi3"): the stable ABI is '
            "named at "
            f"{locations(stable)}"
        )
        yield Field(name="python", value=None, notes=(note,))
    elif survey.uses_cmake and not survey.of("extension"):
        note = guess("no extension module was found, so it is loaded with ctypes")
        yield Field(name="python", value="any", notes=(note,))


def choose_link(survey: Survey) -> Field:
    """The components that the build names; the linker decides, and `repair` tells."""
    found: dict[str, Finding] = {}
    static, unknown = set(), set()
    for one in survey.relevant("library"):
        name = one.name
        if _STATIC.search(name):
            static.add(one)
            continue
        if component := _component(name):
            found.setdefault(component, one)
        elif name not in _SYSTEM and not _OTHER.match(name):
            unknown.add(one)
    for one in survey.of("header"):
        found.setdefault(_component(one.name), one)
    names = dict.fromkeys(("cudart", *(("torch",) if survey.uses_torch else ()), *sorted(found)))
    notes = [
        guess(f"{name}: {one.where}{' includes its header' if one.kind == 'header' else ''}")
        for name, one in sorted(found.items())
    ]
    if static:
        listed = ", ".join(sorted({one.name for one in static}))
        notes.append(find_out(f"whether {listed} are linked in ({locations(static)})"))
    if unknown:
        listed = ", ".join(sorted({one.name for one in unknown}))
        notes.append(
            find_out(f"what supplies {listed} ({locations(unknown)}); no component has that name")
        )
    return Field(name="link", value=Call(name="Link", words=tuple(names)), notes=tuple(notes))


# Of the C library and of compilers, which manylinux allows or the toolchain brings.
_OTHER = re.compile(r"(amd)?hip|roc|rccl")  # AMD's
_SYSTEM = ("c", "dl", "gcc", "gomp", "m", "pthread", "rt", "stdc++", "toolkit")


def _component(name: str) -> str:
    """The component that a linked name means; empty: none is known."""
    known = {component.name.lower(): component.name for component in COMPONENTS}
    plain = _LIBRARIES.get(name.lower(), name).lower()
    if re.match(r"(torch|c10)", plain):
        return "torch"
    if plain == DRIVER:
        return DRIVER
    return known.get(plain, "")
