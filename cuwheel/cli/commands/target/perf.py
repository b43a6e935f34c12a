"""The session `perf`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser
from cuwheel.cli.report_options import add_report_options
from cuwheel.cli.target_options import refuse_platform

if TYPE_CHECKING:
    from cuwheel.system.console import Console

_REQUESTS = 20


def perf_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser(
        "perf", "Check a wheel's results on this GPU, measure it, and compare it with another."
    )
    add = parser.add_argument
    add(
        "target",
        nargs="?",
        metavar="TARGET",
        help="such as causal-conv1d-130; default: the newest wheel",
    )
    add("--wheel", metavar="FILE", help="measure this wheel, of this project or any other")
    add("--dist", metavar="DIR", help="where to look for the newest wheel; default: dist/")
    add(
        "--python",
        metavar="PATH",
        help="an environment's interpreter, such as conda's: the wheel is added to it without "
        "changing it; without a wheel, the package installed there is measured; default: an "
        "environment made for the wheel from its recipe's lock",
    )
    add(
        "--against",
        metavar="WHEEL|JSON",
        help="check whether it is slower than another wheel, run alternately, or than a perf.json",
    )
    add(
        "--tolerance",
        type=_percent,
        metavar="PERCENT",
        help="the difference that counts as equal; default: 1 %% with device events, 3 %% with "
        "the host's clock, 5 %% against a perf.json",
    )
    add("--quick", action="store_true", help="only the most informative cases, with fewer rounds")
    add("--sweep", action="store_true", help="also measure requests from several clients at once")
    add(
        "--sweep-max",
        type=_count,
        default=2,
        metavar="N",
        help="maximum number of clients; default: 2",
    )
    add(
        "--requests",
        type=_count,
        default=_REQUESTS,
        metavar="N",
        help=f"requests for each number of clients; default: {_REQUESTS}",
    )
    add("--model", metavar="NAME|DIR", help="for --sweep: a model that transformers can load")
    add("--shared-gpu", action="store_true", help="compare even if other processes use the GPU")
    add(
        "--report",
        metavar="DIR",
        help="folder for perf.json, perf.png, perf.html; default: reports/perf/",
    )
    add(
        "--history",
        metavar="DIR",
        help="folder with earlier runs, to which this one is added; default: in the report folder",
    )
    add("--offline", action="store_true", help="download nothing")
    add_report_options(
        parser,
        quiet="print only problems, and the result",
        verbose="list the errors of blocks, and the kernels of each case",
    )
    refuse_platform(
        parser,
        why="kernels are measured on this machine's GPU",
        fix="run `nox -s perf` on such a machine; here, `nox -s smoke -- TARGET --platform "
        "…` imports the wheel under QEMU",
    )
    return parser


def run_perf(given: argparse.Namespace, console: Console) -> None:
    """Check and measure a wheel, and say whether it is slower than another."""
    # What it needs is in envs/perf.lock, and the options are read where that isn't installed.
    from cuwheel.cli.measuring import measure_wheel  # noqa: PLC0415

    measure_wheel(given, console)


def _percent(text: str) -> float:
    """A share.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        value = float(text.rstrip(" %"))
    except ValueError:
        value = 0.0
    if not 0 < value < 100:  # noqa: PLR2004 - percent
        raise argparse.ArgumentTypeError(f"{text} is not a percentage between 0 and 100")
    return value / 100


def _count(text: str) -> int:
    """A whole number from 1 on.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a positive whole number")
    return int(text)
