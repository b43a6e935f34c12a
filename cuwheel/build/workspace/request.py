"""A build's command line as data: options, arguments and documentation follow from one table."""
# ruff: noqa: RUF009 - each call returns a field

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from cuwheel.base.errors import UsageError
from cuwheel.base.system.pythons import own_python
from cuwheel.build.recipe.link import MODES
from cuwheel.build.recipe.platform import PLATFORMS
from cuwheel.build.recipe.target import Target
from cuwheel.build.sandbox.backends import KINDS
from cuwheel.build.sandbox.containers.engine import ENGINES
from cuwheel.build.workspace.records import STAGES

PROVIDERS = ("pypi", "debian", "conda", "redist", "system")
MOST_SHARDS = 1000
HOST_COMPILERS = ("system", "gcc10", "gcc12")


def read_count(text: str) -> int:
    """Return a number from 1 on."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)


@dataclass(frozen=True)
class Shard:
    """A share of the compiles of one wheel: its number, from 1 on, and how many there are."""

    number: int
    count: int

    def __str__(self) -> str:
        """Return it as the option has it, `3/16`."""
        return f"{self.number}/{self.count}"


def read_shard(text: str) -> Shard:
    """Return the shard of `3/16`."""
    number, slash, count = text.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text} is not a shard, such as 3/16")
    shard = Shard(int(number), int(count))
    if not 1 <= shard.number <= shard.count <= MOST_SHARDS:
        raise argparse.ArgumentTypeError(
            f"{text} is not a shard: the first number is from 1 to the second, and that is at most "
            f"{MOST_SHARDS}"
        )
    return shard


def _read_jobs(text: str) -> int | None:
    """Return a number of compiles; None for `auto`."""
    return None if text == "auto" else read_count(text)


def choices(words: Mapping[str, Any] | tuple[str, ...]) -> str:
    """Return the spelling of an option's value that has to be one of some words."""
    return f"{{{','.join(words)}}}"


def _option(
    value: str, text: str, *, default: Any = None, read: Callable[[str], Any] | None = None
) -> Any:
    """Return a field that is an option; its value ends in `...` where it may be repeated."""
    return field(default=default, metadata={"value": value, "help": text, "read": read})


def _flag(text: str) -> Any:
    return _option("", text, default=False)


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """The options of `build`, which is also how every other command starts a build.

    Folders and files are absolute paths. None means the default that an option's help names; an
    empty `python` is the Python that runs cuwheel.
    """

    targets: tuple[str, ...] = ()
    python: tuple[str, ...] = _option(
        "3.12|PATH...",
        "Python that the wheel is for, repeatable; default: the Python that runs cuwheel",
        default=(),
    )
    arch: tuple[str, ...] = _option(
        "90...",
        "compute capability without dot, repeatable; default: the recipe's list",
        default=(),
    )
    platform: str | None = _option(
        choices(PLATFORMS),
        "the platform that the wheel is for; default: that of this machine",
    )
    target_root: Path | None = _option(
        "DIR", "root folder of another platform, with its Python; default: CUWHEEL_TARGET_ROOT"
    )
    framework: str | None = _option(
        "torch==2.11.0", "release that the wheel is compiled against; default: the recipe's"
    )
    source: Path | None = _option("DIR|ARCHIVE", "build this instead of the recipe's source")
    link: str | None = _option(
        choices(MODES),
        "how CUDA's libraries are provided: by NVIDIA's wheels, copied into this wheel, or linked "
        "statically; default: the recipe's",
    )
    toolchain: str | None = _option(
        choices(PROVIDERS),
        "source of nvcc; default: pypi from CUDA 13.0 on, debian for 12.4, conda for others",
    )
    host_compiler: str | None = _option(
        choices(HOST_COMPILERS),
        "compiler of host code: the machine's, or a GCC with a C library of its own from Debian 11 "
        "or 12; default: gcc10, or gcc12 for C++20; an image's or a conda toolchain's own",
    )
    work: Path | None = _option(
        "DIR", "folder for intermediate files; default: work/ in the project"
    )
    offline: bool = _flag("download nothing, use only the cache")
    any_driver: bool = _flag(
        "accept a GPU driver on this machine that is too old for the wheel, which is for other "
        "machines"
    )
    jobs: int | None = _option(
        "N|auto", "compiles at once; auto: one per core, as memory allows", read=_read_jobs
    )
    dist: Path | None = _option("DIR", "folder for finished wheels; default: dist/ in the project")
    sandbox: str = _option(
        choices(("auto", *KINDS)),
        "what keeps the package's code from the network and your files; default: bubblewrap if it "
        "is installed, else the kernel's namespaces (unshare); none: it can do all that you can",
        default="auto",
    )
    keep_work: bool = _flag("keep the intermediate files after a successful build")
    container: str | None = _option(
        "IMAGE@sha256:DIGEST",
        "build in this image, with its compilers and C library; the network is off while the "
        "package's own build runs",
    )
    container_engine: str | None = _option(
        choices(ENGINES), "program that runs the image; default: podman if it is installed"
    )
    no_cache: bool = _flag("build again even if nothing has changed, and compile everything")
    build_tag: int | None = _option(
        "N",
        "build tag of the wheel; default: none, or the next one if dist/ has a different wheel of "
        "this name",
        read=read_count,
    )
    replace: bool = _flag(
        "overwrite a published wheel of this name instead of giving the new one a build tag"
    )
    replace_broader: bool = _flag(
        "publish the wheel even if dist/ has one of this version that serves more GPUs, Pythons or "
        "systems; installers then prefer the new one"
    )
    # Every command describes these three itself.
    quiet: bool = _flag("")
    verbose: bool = _flag("")
    json: bool = _flag("")
    dry_run: bool = _flag("print what would be built, why, and what it takes, then stop")
    stage: str | None = _option(
        choices(STAGES), "run only this stage, on the output of the one before it"
    )
    until: str | None = _option(
        choices(STAGES), "stop after this stage; the next build continues from there"
    )
    shard: Shard | None = _option(
        "I/N",
        "compile only the I-th of N shares into the compile cache, and publish nothing; a build "
        "without --shard then takes the objects from there",
        read=read_shard,
    )
    # For containers: as --until, but a wheel that is up to date stays as it is.
    part: str | None = _option(choices(STAGES), argparse.SUPPRESS)

    @property
    def reuse(self) -> bool:
        """False: the wheel is built again although nothing has changed."""
        return not self.no_cache

    def compiler_for(self, target: Target) -> str:
        """Return the host compiler for a target.

        Raises:
            UsageError: the requested one doesn't go with its toolchain or its platform.
        """
        usual = "system" if self.container else target.usual_compiler  # the image's
        platform, chosen = target.platform, self.host_compiler or usual
        if chosen == "system":
            return chosen
        if target.provider == "conda":
            raise UsageError(
                f"--host-compiler {chosen} can't be used with a conda toolchain",
                why="its lock has a GCC and a C library of its own",
                fix="leave it out, or choose another `--toolchain`",
            )
        if platform.is_foreign:
            raise UsageError(
                f"--host-compiler {chosen} can't compile for {platform.machine} on this machine",
                why="its packages are compilers for this kind of machine",
                fix="leave it out: the machine's own cross compiler is used",
            )
        return chosen

    def with_python(self) -> BuildRequest:
        """Return the request for another Python to carry out: this one's release is named."""
        return self if self.python else replace(self, python=(own_python().release,))

    def argv(self, *names: str) -> tuple[str, ...]:
        """Return the targets, and all or the named options, but for those at their default."""
        argv = list(self.targets) if "targets" in names or not names else []
        for name in names or OPTIONS:
            value = getattr(self, name)
            if name == "targets" or value == OPTIONS[name].default:
                continue
            if value is True:
                argv.append(flag_of(name))
                continue
            for item in value if isinstance(value, tuple) else (value,):
                argv += [flag_of(name), str(item)]
        return tuple(argv)


OPTIONS: Mapping[str, Field[Any]] = {
    option.name: option for option in fields(BuildRequest) if option.metadata
}
OF_TARGET = (
    *("python", "arch", "platform", "target_root", "framework", "source", "link", "toolchain"),
    "host_compiler",
)
OF_RUN = ("work", "offline", "any_driver", "jobs", "dist", "sandbox")
_OF_OUTPUT = ("dist", "build_tag", "replace", "replace_broader")
_OF_REPORT = ("quiet", "verbose", "json")


def group_of(name: str) -> str:
    """Return the heading below which `--help` has an option of a build; empty: the usual one."""
    if name in _OF_REPORT:
        return ""
    if name in OF_TARGET:
        return "what is built"
    return "published files" if name in _OF_OUTPUT else "how it is built"


def flag_of(name: str) -> str:
    """Return `--any-driver` for `any_driver`."""
    return f"--{name.replace('_', '-')}"
