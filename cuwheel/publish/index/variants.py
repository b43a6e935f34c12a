"""Variants (PEP 825) of published wheels: opt-in, and always in addition to the plain wheel."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from cuwheel.base.formats.wheel.variants import (
    cuda_variant,
    split_variant,
    variant_name,
    variants_document,
    variants_name,
    write_variant,
)
from cuwheel.base.system.regular_files import parse_json
from cuwheel.build.wheelhouse.entries import Entry
from cuwheel.build.wheelhouse.facts import read_facts
from cuwheel.build.wheelhouse.simple_api import ListedFile


def write_variants(files: Path, entries: Iterable[Entry], cache: Path) -> bool:
    """Write the variant of each plain wheel with machine code, and return True if one is new.

    Existing ones stay. Each gets the time of its plain wheel, which is its date in the index.

    Raises:
        UnsafeArchiveError: a wheel is damaged.
        OSError: one can't be written.
    """
    cache.mkdir(parents=True, exist_ok=True)
    is_new = False
    for entry in entries:
        if entry.variant or not entry.has_libraries:
            continue
        plain = files / entry.name
        facts = read_facts(plain, entry.sha256, cache)
        variant = cuda_variant(facts.cuda, facts.archs)
        if variant is None:
            continue
        path = files / variant_name(entry.name, variant)
        if not path.exists():
            write_variant(plain, path, variant, cache)
            published = plain.stat()
            os.utime(path, ns=(published.st_atime_ns, published.st_mtime_ns))
            is_new = True
    return is_new


def variants_in(files: Path) -> Iterator[tuple[str, str]]:
    """Yield the variants in a folder, each with the name of its plain wheel."""
    for path in files.glob("*.whl"):
        plain, label = split_variant(path.name)
        if label:
            yield path.name, plain


def variants_of_releases(entries: Iterable[Entry]) -> list[ListedFile]:
    """Return the variants file of each release that has variants."""
    releases: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.variant:
            releases[entry.project, variants_name(entry.name)].append(entry)
    return [
        ListedFile(
            project=project,
            name=name,
            content=variants_document(parse_json(entry.variant) for entry in variants),
            # Not the newest: `--exclude-newer` is for wheels, and an old one needs this file.
            uploaded=min(entry.uploaded for entry in variants),
        )
        for (project, name), variants in sorted(releases.items())
    ]
