"""`pick` and uv on fifteen machines and eight packages, each answer beside an audit of its file.

`nox -s bench -- pick [--csv FILE]` queries the configured indexes. Three makers' lists of releases
are recorded ones, served here: their names are real, and their wheels have nothing inside. Where
`pick` finds none, all wheels for the platform and Python are read for one that it missed. Each
page and each file is read once for all machines, and uv resolves meanwhile.
"""  # noqa: INP001 - run by path, not a package

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from unittest import mock

from packaging.requirements import Requirement

from cuwheel.base.caller import Caller
from cuwheel.base.errors import CuwheelError
from cuwheel.base.fetch.indexes.indexes import configured_indexes
from cuwheel.base.fetch.indexes.offers import Offer
from cuwheel.base.fetch.remote_file import open_remote
from cuwheel.build.environments.uv import OWN_PYTHON, run_uv
from cuwheel.check.pick import choice, pick
from cuwheel.check.pick.choice import query_indexes
from cuwheel.check.pick.contents import WheelContents, read_contents, read_remote
from cuwheel.check.pick.fit import RemoteWheelFacts, WheelJudge
from cuwheel.check.pick.known_sources import Sources
from cuwheel.check.pick.machine import parse_machine
from cuwheel.check.pick.pick import PickOptions, find
from tests.e2e.check.test_fifteen_machines import MACHINES, PACKAGES
from tests.support.factories import write_wheel
from tests.support.servers.http import Site, serving

RECORDED = Path(__file__).parents[1] / "tests" / "recorded" / "releases.json"
_RECORDED = "a recorded name"
_COLUMNS = ("machine", "for", "package", "pick", "not known", "its file", "uv", "its file")
_AT_ONCE = 2  # runs of uv
_FAULTS = {
    "arch": "no code for the GPU",
    "driver": "driver too old",
    "framework": "lacks symbols or another torch",
    "cuda": "another CUDA",
}


def main(arguments: Sequence[str]) -> None:
    """Query, compare, write a table of all answers, print their counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path, default=Path("pick.csv"))
    options = parser.parse_args(arguments)
    machines = {
        name: paper if "platform=" in paper else f"{paper},platform=x86_64"
        for name, paper in MACHINES.items()
    }
    kinds: Counter[tuple[str, str]] = Counter()
    with (
        recorded_releases() as sources,
        options.csv.open("w", newline="") as file,
        reading_once(),
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        table = csv.writer(file, lineterminator="\n")
        table.writerow(_COLUMNS)
        cells = [(name, package) for name in machines for package in PACKAGES]
        theirs = {
            (name, package): pool.submit(_answer_of_uv, package, machines[name])
            for name, package in cells
        }
        for name, package in cells:
            row = _compare(package, machines[name], sources, theirs[name, package])
            table.writerow((name, MACHINES[name], package, *row))
            file.flush()
            kinds[_kind(row[0], row[2]), _kind(*row[3:])] += 1
    for (ours, uv), count in kinds.most_common():
        sys.stdout.write(f"| {ours} | {uv} | {count} |\n")


@contextlib.contextmanager
def reading_once() -> Iterator[None]:
    """Read each page and each wheel once: what is on them is the same for all machines."""
    with (
        mock.patch.object(pick, "query_indexes", functools.cache(query_indexes)),
        mock.patch.object(choice, "read_facts", functools.cache(choice.read_facts)),
        mock.patch.object(choice, "read_remote", functools.cache(read_remote)),
    ):
        yield


@contextlib.contextmanager
def recorded_releases() -> Iterator[Sources]:
    """Serve the recorded lists as the forge's API does, with wheels of no content."""
    releases = json.loads(RECORDED.read_text())
    os.environ["NO_PROXY"] = f"127.0.0.1,{os.environ.get('NO_PROXY', '')}"
    with tempfile.TemporaryDirectory() as folder, serving(Site()) as site:
        site.headers = {"Content-Type": "application/json"}
        for source, release in releases.items():
            assets = [_serve_asset(name, Path(folder), site) for name in release["assets"]]
            site.files[f"/{source}/releases"] = json.dumps([{"assets": assets}]).encode()
        bases = {name: site.url(f"/{name}") for name in releases}
        yield Sources(names=tuple(releases), bases=bases)


def _serve_asset(asset: str, folder: Path, site: Site) -> dict[str, object]:
    name, version, tag = asset.removesuffix(".whl").split("-", 2)
    files: dict[str, bytes | Path] = {f"{name}.py": b""}
    path = write_wheel(folder, files, name=name, version=version, tag=tag, requires=("torch",))
    site.files[f"/files/{asset}"] = path.read_bytes()
    address = site.url(f"/files/{asset.replace('+', '%2B')}")
    return {"name": asset, "browser_download_url": address, "size": path.stat().st_size}


def _compare(
    package: str, machine: str, sources: Sources, answer_of_uv: Future[str]
) -> tuple[str, str, str, str, str]:
    wanted = Requirement(package)
    options = PickOptions(wanted=wanted, paper=machine, sources=sources, start=Path.cwd())
    wheel = find(options, dict(os.environ)).wheel
    theirs = answer_of_uv.result()
    verdict_of_uv = _verdict(package, theirs, machine) if theirs else ""
    if wheel is None:
        return "", "", _missed(package, machine), theirs, verdict_of_uv
    unknown = "; ".join(dict.fromkeys(reason.kind for reason in wheel.unknown))
    verdict = _RECORDED if wheel.source else _verdict(package, wheel.name, machine)
    return wheel.name, unknown, verdict, theirs, verdict_of_uv


def _kind(name: str, verdict: str) -> str:
    if not name:
        return f"none, {verdict}" if verdict else "none"
    return verdict if verdict in {"works", _RECORDED} else "doesn't fit"


def _missed(package: str, machine: str) -> str:
    """Return the newest wheel that fits by all that can be read of it; empty: there is none."""
    known, wanted = parse_machine(machine), Requirement(package)
    offers = sorted(_offers(package).values(), key=lambda offer: offer.version, reverse=True)

    def reasons(offer: Offer, facts: RemoteWheelFacts) -> set[str]:
        return {item.kind for item in WheelJudge(offer, known, facts, wanted).judge().reasons}

    for offer in offers:
        if not offer.is_wheel or not reasons(offer, RemoteWheelFacts()) <= {"framework"}:
            continue
        facts = choice.read_facts(offer)
        if reasons(offer, facts) <= {"framework"} and not reasons(
            offer, choice.with_contents(facts, offer)
        ):
            return f"missed {offer.name}"
    return ""


def _answer_of_uv(package: str, machine: str) -> str:
    """Return the wheel that uv chooses beside the machine's PyTorch; empty: none."""
    known = parse_machine(machine)
    python = f"{'.'.join(map(str, known.release))}{'t' * known.is_free_threaded}"
    glibc = known.glibc.replace(".", "_")
    with tempfile.TemporaryDirectory() as folder:
        source, lock = Path(folder, "in.txt"), Path(folder, "pylock.toml")
        source.write_text(f"{package}\ntorch=={known.framework('torch')}.*\n")
        platform = f"{known.platform}-manylinux_{glibc}"
        place = ("--python-version", python, "--python-platform", platform)
        strict = ("--only-binary", ":all:", "--index-strategy", "unsafe-best-match")
        form = (*strict, "--format", "pylock.toml", "--no-header")
        argv = ("pip", "compile", *OWN_PYTHON, sys.executable, *place, *form)
        cache = Caller(os.environ).cache
        try:
            run_uv(
                (*argv, "--output-file", lock, source),
                cache=cache,
                environ=os.environ,
                what="nothing",
                with_pips=True,
            )
        except CuwheelError:
            return ""
        module = package.replace("-", "_")
        text = lock.read_text().replace("%2B", "+")
        names = (word.rpartition("/")[2] for word in text.split('"') if word.endswith(".whl"))
        return next((name for name in names if name.startswith(f"{module}-")), "")


@functools.cache
def _offers(package: str) -> dict[str, Offer]:
    offers = query_indexes(Requirement(package), configured_indexes(os.environ))
    if not offers.files:
        sys.exit(f"no index has {package}: {offers.faults}")
    return {offer.name: offer for offer in offers.files}


@functools.cache
def _contents(package: str, name: str) -> WheelContents | None:
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(folder, name)
        with open_remote(_offers(package)[name].url) as source, wheel.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 22)
        return read_contents(wheel)


def _verdict(package: str, name: str, machine: str) -> str:
    """Return `works`, or what in a wheel's file speaks against a machine."""
    facts = RemoteWheelFacts(contents=_contents(package, name))
    offer = _offers(package)[name]
    judged = WheelJudge(offer, parse_machine(machine), facts, Requirement(package)).judge()
    faults = (_FAULTS.get(reason.kind, reason.kind) for reason in judged.reasons)
    return "; ".join(dict.fromkeys(faults)) or "works"


if __name__ == "__main__":
    main(sys.argv[1:])
