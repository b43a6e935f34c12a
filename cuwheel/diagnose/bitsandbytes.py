"""bitsandbytes: which of its libraries gets loaded, and whether it works with it.

How it chooses: `get_cuda_bnb_library_path` and `get_native_library` in bitsandbytes/cextension.py
(0.49.1): torch's CUDA unless BNB_CUDA_VERSION says otherwise, the CPU's where torch sees no GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.cuda.toolkits import TOOLKITS
from cuwheel.diagnose.verdict import broken, not_asked, warns, works

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cuwheel.diagnose.facts.environment import Distribution, FrameworkFacts, ModuleRun
    from cuwheel.diagnose.facts.gpus import Driver
    from cuwheel.diagnose.verdict import Verdict


PROJECT = "bitsandbytes"
VARIABLE = "BNB_CUDA_VERSION"
_LIBRARY = re.compile(r"libbitsandbytes_cuda(\d+)\.so")
_SUCCESS = "SUCCESS!"
_SHOWN = 200  # characters of its own words


@dataclass(frozen=True, kw_only=True)
class BnbChoice:
    """What bitsandbytes will load.

    Attributes:
        version: of the package.
        library: the file's name; empty where it can't be told.
        release: of CUDA, `130`; empty for the CPU's library.
        decided_by: BNB_CUDA_VERSION or torch.
        held: the releases that the package has libraries for.
        torchs: the release that torch was built with.
    """

    version: str
    library: str
    release: str
    decided_by: str
    held: tuple[str, ...]
    torchs: str

    @property
    def hint(self) -> str:
        """What undoes a choice that isn't torch's; empty where it is."""
        if self.release in ("", self.torchs) or self.torchs not in self.held:
            return ""
        return f"unset {VARIABLE}: the library for torch's CUDA, {self.torchs}, is there"

    @property
    def is_held(self) -> bool:
        """Whether the package has that library."""
        return not self.release or self.release in self.held


def choose_library(
    distribution: Distribution, torch: FrameworkFacts | None, environ: Mapping[str, str]
) -> BnbChoice:
    """Which library it takes on a machine whose GPU torch sees.

    Args:
        distribution: bitsandbytes.
        torch: what is known of torch; None where it isn't installed.
        environ: of the caller.
    """
    found = (_LIBRARY.fullmatch(path.name) for path in distribution.libraries if path.exists())
    torchs = torch.cuda.replace(".", "") if torch else ""
    asked = environ.get(VARIABLE, "")
    release = (asked or torchs) if torchs else ""
    return BnbChoice(
        version=distribution.version,
        library=f"libbitsandbytes_cuda{release}.so" if release else "libbitsandbytes_cpu.so",
        release=release,
        decided_by=VARIABLE if asked and release else "torch's CUDA",
        held=tuple(sorted({match[1] for match in found if match}, key=int)),
        torchs=torchs,
    )


def judge_bnb(
    choice: BnbChoice, done: ModuleRun | None, driver: Driver, torch: FrameworkFacts | None
) -> Iterator[Verdict]:
    """Judge the choice, and what running it gave.

    Args:
        choice: from `choose_library`.
        done: what `python -m bitsandbytes` gave; None where it wasn't run.
        driver: whether there is a GPU.
        torch: what is known of torch.
    """
    name = f"{PROJECT} {choice.version}"
    if torch is None or not choice.torchs:
        state = "isn't installed" if torch is None else "is built without CUDA"
        yield broken(
            "built-without-cuda",
            f"{name} can't use a GPU",
            f"it takes CUDA from torch, which {state}",
            "install torch with CUDA: pip install --force-reinstall torch",
        )
        return
    if not choice.is_held:
        yield _not_held(name, choice)
        return
    has_gpu = bool(driver.gpus) and driver.visible != 0
    if has_gpu and torch.available is False:
        yield warns(
            "no-cuda-device",
            f"{name} takes the CPU's library, not {choice.library}",
            "torch sees no GPU",
            "mend torch first, then ask again",
        )
    elif has_gpu and done is not None:
        yield _judge_run(name, choice, done)
    elif choice.release != choice.torchs:
        yield warns(
            "bnb-native-lib-missing",
            f"{name} will load {choice.library}, not the one for torch",
            f"{VARIABLE}={choice.release} says so, and torch is built with CUDA "
            f"{_dotted(choice.torchs)}",
            choice.hint or _toggle(choice),
        )
    elif not torch.failure:
        yield works(f"{name} would load {choice.library}; it wasn't run: there is no GPU")


def _not_held(name: str, choice: BnbChoice) -> Verdict:
    held = ", ".join(choice.held) or "none"
    return broken(
        "bnb-native-lib-missing",
        f"{name} lacks {choice.library}",
        f"{choice.decided_by} asks for {choice.release}; the package holds {held}",
        _toggle(choice),
    )


def _toggle(choice: BnbChoice) -> str:
    """What makes it load a library that it has."""
    if choice.hint:
        return choice.hint
    if near := _nearest(choice):
        return (
            f"export {VARIABLE}={near}: of the libraries that are there the nearest to torch's "
            f"CUDA {_dotted(choice.torchs)}"
        )
    known = {toolkit.tag for toolkit in TOOLKITS}
    builds = f", or build it: nox -s build-bitsandbytes-{choice.torchs}"
    return (
        f"install a bitsandbytes with a library for CUDA {_dotted(choice.torchs)[:-2]}, or a "
        f"torch for {', '.join(map(_dotted, choice.held)) or 'another CUDA'}"
        f"{builds if choice.torchs in known else ''}"
    )


def _nearest(choice: BnbChoice) -> str:
    """Of the same major release: the newest that isn't newer than torch's, else the oldest."""
    same = [one for one in choice.held if one[:-1] == choice.torchs[:-1]]
    older = [one for one in same if int(one) <= int(choice.torchs)]
    return (older or ["", *same[::-1]])[-1]


def _judge_run(name: str, choice: BnbChoice, done: ModuleRun) -> Verdict:
    said = f"python -m {PROJECT}"
    loaded = [path.name for path in done.libraries if path.name.startswith("libbitsandbytes")]
    if done.fault:
        return not_asked(said, done.fault)
    if _SUCCESS in done.output and choice.library in loaded:
        return works(f"{name}: `{said}` says SUCCESS with {choice.library}")
    if _SUCCESS in done.output:
        return warns(
            "bnb-native-lib-missing",
            f"{name} has loaded {', '.join(loaded) or 'no library'}",
            f"{choice.decided_by} asks for {choice.library}",
            f"unset {VARIABLE}, or install the package again",
        )
    return broken(
        "bnb-native-lib-missing",
        f"{name} doesn't work with {choice.library}",
        f"`{said}` ended with status {done.status}, without SUCCESS: {_telling(done.output)}",
        choice.hint or f"{said} shows all of it; what else is broken in this report comes first",
    )


_TELLING = re.compile(
    r"cannot open shared object|undefined symbol|not found at|no kernel image|Error\b"
)


def _telling(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line for line in lines if _TELLING.search(line)), (lines or ["nothing"])[-1])[
        :_SHOWN
    ]


def _dotted(release: str) -> str:
    """`12.8` of 128."""
    return f"{release[:-1]}.{release[-1:]}"
