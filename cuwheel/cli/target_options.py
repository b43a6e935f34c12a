"""The options of all sessions that take a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.model.link import MODES
from cuwheel.model.platform import PLATFORMS
from cuwheel.sandbox.backends import KINDS
from cuwheel.spelling import as_typed

if TYPE_CHECKING:
    from cuwheel.cli.parser import Parser


PROVIDERS = ("pypi", "conda", "system")
PROVIDER_HELP = "source of nvcc; default: pypi from CUDA 13.0 on, conda for older ones"
# What a build is told besides; sessions without these options leave it as it is.
_BUILD_DEFAULTS = {
    "dist": None,
    "jobs": "auto",
    "sandbox": "auto",
    "no_cache": False,
    "dry_run": False,
    "build_tag": None,
    "replace": False,
}


def add_targets(parser: Parser, metavar: str = "TARGET", more: str = "") -> None:
    """Add the targets' names; which there are, `target_choice.named_targets` knows."""
    words = f"recipe and toolkit, such as causal-conv1d-130{more}"
    parser.add_argument("targets", nargs="*", metavar=metavar, help=words)


def add_target_options(parser: Parser) -> None:
    """Add what says more about a target, and what every session that builds it needs."""
    add = parser.add_argument
    add(
        "--python",
        action="append",
        default=[],
        metavar="3.12|PATH",
        help="Python that the wheel is for, repeatable; default: the Python that runs nox",
    )
    add_arch(parser)
    add_platform(parser)
    add(
        "--framework",
        metavar="torch==2.11.0",
        help="release that the wheel is compiled against; default: the recipe's",
    )
    add("--source", metavar="DIR|ARCHIVE", help="build this instead of the recipe's source")
    add_cuda_options(parser)
    add_work_options(parser)
    parser.set_defaults(**_BUILD_DEFAULTS)


def add_cuda_options(parser: Parser) -> None:
    """Add where CUDA comes from, for the build and for who uses the wheel."""
    add = parser.add_argument
    add(
        "--link",
        choices=tuple(MODES),
        help="how CUDA's libraries are provided: by NVIDIA's wheels, copied into this wheel, or "
        "linked statically; default: the recipe's",
    )
    add("--toolchain", choices=PROVIDERS, help=PROVIDER_HELP)


def add_arch(parser: Parser) -> None:
    """Add what the device code is compiled for."""
    parser.add_argument(
        "--arch",
        action="append",
        default=[],
        metavar="90",
        help="compute capability without dot, repeatable; default: the recipe's list",
    )


def add_platform(parser: Parser) -> None:
    """Add which machines the wheel is for."""
    parser.add_argument(
        "--platform",
        choices=tuple(PLATFORMS),
        help="the platform that the wheel is for; default: that of this machine",
    )
    add_target_root(parser)


def add_platforms(parser: Parser) -> None:
    """Add the same for a session that takes several."""
    parser.add_argument(
        "--platform",
        action="append",
        default=[],
        choices=tuple(PLATFORMS),
        help="the machines that wheels are for, repeatable; default: this one's kind",
    )
    add_target_root(parser)


def refuse_platform(parser: Parser, why: str, fix: str) -> None:
    """Say to who gives the options of another kind of machine why a session doesn't take them.

    Args:
        parser: of the session.
        why: it is about this machine.
        fix: what to do instead.
    """
    said = (as_typed(why), as_typed(fix))
    parser.elsewhere = dict.fromkeys(("--platform", "--target-root"), said)


def add_target_root(parser: Parser) -> None:
    """Add what a wheel for another kind of machine is built with."""
    parser.add_argument(
        "--target-root",
        metavar="DIR",
        help="root folder of another platform, with its Python; default: CUWHEEL_TARGET_ROOT",
    )


def add_work_options(parser: Parser) -> None:
    """Add what says where and under which conditions a build works."""
    add = parser.add_argument
    add(
        "--work",
        metavar="DIR",
        help="folder for intermediate files; default: work/ in the checkout",
    )
    add("--offline", action="store_true", help="download nothing, use only the cache")
    add(
        "--any-driver",
        action="store_true",
        help="accept a GPU driver on this machine that is too old for the wheel, which is for "
        "other machines",
    )


def add_build_options(parser: Parser) -> None:
    """Add what only a session takes that publishes wheels."""
    add = parser.add_argument
    add(
        "--jobs",
        default="auto",
        metavar="N|auto",
        help="compiles at once; auto: one per core, as memory allows",
    )
    add("--dist", metavar="DIR", help="folder for finished wheels; default: dist/ in the checkout")
    add(
        "--sandbox",
        choices=("auto", *KINDS),
        default="auto",
        help="what isolates the build from the network and other files; default: bubblewrap if it "
        "is installed, else the kernel's namespaces (unshare), else none",
    )
