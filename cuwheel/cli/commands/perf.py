"""The session `perf`."""

from __future__ import annotations

import argparse

from cuwheel.base.caller import Caller
from cuwheel.base.system.console import Console
from cuwheel.build.workspace.request import read_count
from cuwheel.cli.parser import JSON_TEXT, Option, Parser, new_parser
from cuwheel.cli.target_choice import build_options

_REQUESTS = 20


def perf_parser() -> Parser:
    """Return the parser of the session."""
    why = "without --sweep there are no concurrent requests, and the model would never be loaded"
    return new_parser(
        "perf",
        "Check a wheel's results on this GPU, measure it, and compare it with another.",
        {
            "target TARGET?": "such as causal-conv1d-130; default: the newest wheel",
            "--wheel FILE": "measure this wheel, of this project or any other",
            "--dist DIR": "where to look for the newest wheel; default: dist/",
            "--python PATH": "an environment's interpreter, such as conda's: the wheel is added to "
            "it without changing it; without a wheel, the package installed there is measured; "
            "default: an environment made for the wheel from its recipe's lock",
            "--against WHEEL|JSON": "check whether it is slower than another wheel, run "
            "alternately, or than a perf.json",
            "--tolerance PERCENT": Option(
                "the difference that counts as equal; default: 1 %% with device events, 3 %% "
                "with the host's clock, 5 %% against a perf.json",
                read=_percent,
            ),
            "--quick": "only the most informative cases, with fewer rounds",
            "--sweep": "also measure requests from several clients at once",
            "--sweep-max N": Option(
                "maximum number of clients; default: 2", read=read_count, default=2
            ),
            "--requests N": Option(
                f"requests for each number of clients; default: {_REQUESTS}",
                read=read_count,
                default=_REQUESTS,
            ),
            "--model NAME|DIR": "for --sweep: a model that transformers can load",
            "--sanitize": "also run the small cases under compute-sanitizer's four tools",
            "--upstream-tests": "also run the tests of the package's source that its recipe names",
            "--shared-gpu": "compare even if other processes use the GPU",
            "--report DIR": "folder for perf.json, perf.png, perf.html; default: reports/perf/",
            "--history DIR": "folder with earlier runs, to which this one is added; default: in "
            "the report folder",
            "--offline": "download nothing",
            **build_options("sandbox"),
            "--quiet": "print only problems, and the result",
            "--verbose": "list the errors of blocks, and the kernels of each case",
            "--json": JSON_TEXT,
        },
        needs={("--model", "--sweep"): why},
    )


def run_perf(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Check and measure a wheel, and raise an error if it is slower than another."""
    # What it needs is in envs/perf.lock, and the options are read where that isn't installed.
    from cuwheel.cli.measuring import measure_wheel  # noqa: PLC0415

    measure_wheel(args, console, caller)


def _percent(text: str) -> float:
    try:
        value = float(text.rstrip(" %"))
    except ValueError:
        value = 0.0
    if not 0 < value < 100:  # noqa: PLR2004 - percent
        raise argparse.ArgumentTypeError(f"{text} is not a percentage between 0 and 100")
    return value / 100
