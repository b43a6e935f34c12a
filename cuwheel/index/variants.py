"""Variants of published wheels, beside them: opt-in, and there is always the plain wheel too."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from typing import TYPE_CHECKING

from cuwheel.index.facts import read_facts
from cuwheel.index.simple_api import IndexFile
from cuwheel.wheel.variants import (
    cuda_variant,
    split_variant,
    variant_name,
    variants_document,
    variants_name,
    write_variant,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cuwheel.index.entries import Entry


def write_variants(files: Path, entries: Iterable[Entry], cache: Path) -> bool:
    """Write the variant of each plain wheel that says by its machine code for which GPUs it is.

    One that is there stays. Each gets the time of its plain wheel, which is its date in the index.

    Args:
        files: the folder of the published wheels.
        entries: the wheels.
        cache: the cache's folder.

    Returns:
        Whether one is new.

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
    """The variants of a folder, each with the name of its plain wheel."""
    for path in files.glob("*.whl"):
        plain, label = split_variant(path.name)
        if label:
            yield path.name, plain


def variants_of_releases(entries: Iterable[Entry]) -> list[IndexFile]:
    """The file of each release that says which variants it has; none where it has none."""
    found: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.variant:
            found[entry.project, variants_name(entry.name)].append(entry)
    return [
        IndexFile(
            project=project,
            name=name,
            content=variants_document(json.loads(one.variant) for one in variants),
            # Not the newest: `--exclude-newer` is for wheels, and an old one needs this file.
            uploaded=min(one.uploaded for one in variants),
        )
        for (project, name), variants in sorted(found.items())
    ]
