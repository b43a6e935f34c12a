"""The modules of an installed distribution that an import of it means."""

from __future__ import annotations

import csv
import importlib.metadata
import re
from pathlib import Path

from packaging.utils import canonicalize_name

_PACKAGE = re.compile(r"((?:[A-Za-z]\w*/)+[A-Za-z]\w*)/__init__\.py")
_MODULE = re.compile(r"([A-Za-z]\w*)(?:/__init__\.py|\.py|(?:\.[\w-]+)?\.so)")


def top_modules(site: Path, project: str) -> tuple[str, ...]:
    """Return a distribution's top modules, by its RECORD; only the project's own if it has one.

    Of a distribution in a namespace, `cuda/core`, the highest packages: `cuda.core`.
    """
    paths: list[str] = []
    for item in importlib.metadata.distributions(path=[str(site)]):
        if canonicalize_name(item.metadata["Name"]) == project:
            rows = csv.reader((item.read_text("RECORD") or "").splitlines())
            paths += [row[0] for row in rows if row]
    tops = [match[1] for path in paths if (match := _MODULE.fullmatch(path))]
    names = dict.fromkeys(name for name in tops if not name.startswith("_"))
    if (own := project.replace("-", "_")) in names:
        return (own,)
    packages = [match[1] for path in paths if (match := _PACKAGE.fullmatch(path))]
    least = min((name.count("/") for name in packages), default=0)
    highest = (name.replace("/", ".") for name in packages if name.count("/") == least)
    return tuple(names) or tuple(highest)
