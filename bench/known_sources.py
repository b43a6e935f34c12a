"""Read each known source of `pick`: which of its projects it has, and for how many files a hash.

`nox -s bench -- known-sources [NAME ...] [--write]` needs a network. `--write` notes the day for
each source that has a wheel of each of its projects. CUWHEEL_SOURCE_BASES names copies.
"""  # noqa: INP001 - run by path, not a package

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.quantities import plural
from cuwheel.check.pick.choice import query_sources
from cuwheel.check.pick.known_sources import CHECKED, KNOWN_SOURCES, KnownSource, read_sources

_SECONDS = 60.0  # for a project


@dataclass(frozen=True, kw_only=True)
class SourceCheck:
    """What a source has.

    Attributes:
        wheels: of all of its projects.
        hashed: how many of them have a SHA-256.
        absent: for each project without a wheel, why.
    """

    name: str
    wheels: int
    hashed: int
    absent: dict[str, str]

    def __str__(self) -> str:
        absent = "".join(f"\n  no wheel of {name}: {why}" for name, why in self.absent.items())
        return f"{self.name}: {plural(self.wheels, 'wheel')}, {self.hashed} with a hash{absent}"


def main(arguments: Sequence[str], table: Path = CHECKED) -> bool:
    """Print what each source has; return True where one lacks a wheel of a project."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="sources; default: all")
    parser.add_argument("--write", action="store_true", help="note today's date")
    options = parser.parse_args(arguments)
    sources = read_sources(options.names, os.environ)
    known = [source for source in KNOWN_SOURCES if source.name in sources.names]
    checks = [check_source(source, sources.bases) for source in known]
    for check in checks:
        sys.stdout.write(f"{check}\n")
    whole = [check.name for check in checks if not check.absent]
    if options.write and whole:
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        dates = {**json.loads(table.read_text()), **dict.fromkeys(whole, today)}
        write_atomically(table, f"{json.dumps(dates, indent=1, sort_keys=True)}\n")
    return len(whole) < len(checks)


def check_source(source: KnownSource, bases: Mapping[str, str]) -> SourceCheck:
    """Query a source for each of its projects, as `pick` does."""
    wheels, absent = [], {}
    for project in source.projects:
        pages = source.addresses(bases)
        offers = query_sources(Requirement(project), pages, seconds=_SECONDS)
        files = [offer for offer in offers.files if offer.is_wheel]
        wheels += files
        if not files:
            faults = sorted(offers.faults.values(), key=lambda fault: fault.kind != "unasked")
            absent[project] = next(map(str, faults), "it has only sources")
    return SourceCheck(
        name=source.name,
        wheels=len(wheels),
        hashed=sum(bool(offer.sha256) for offer in wheels),
        absent=absent,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
