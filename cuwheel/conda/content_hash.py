"""conda-lock's content hash: what ties a `conda-lock.yml` to the files that it was solved from.

Its library takes half a second to import and 44 packages to be there, for SHA-256 over a few lines
of JSON (ADR 11). It keeps what goes into that JSON as it is (conda-lock's `content_hash.py`:
"anything that modifies the content hash is a breaking change"), and when it writes a lock it
computes the hash itself: one that isn't this one is an error then.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cuwheel.conda.dependency import CondaDependency


_BUILT = 1577854800000  # milliseconds since 1970, of every virtual package


def content_hash(
    channels: Iterable[str],
    dependencies: Iterable[CondaDependency],
    system: Mapping[str, str],
    platform: str,
) -> str:
    """Compute the content hash of a source.

    Args:
        channels: as the source names them.
        dependencies: what it requires.
        system: version of each virtual package, with a build string behind a space where it has
            one.
        platform: `linux-64`.

    Returns:
        64 hexadecimal digits.
    """
    content = {
        "channels": [
            json.dumps({"url": url, "used_env_vars": []}, separators=(",", ":"), ensure_ascii=False)
            for url in channels
        ],
        "specs": [_spec(one) for one in sorted(dependencies, key=lambda one: one.name)],
        "virtual_package_hash": {
            "noarch": {"info": {"subdir": "noarch"}, "packages": {}},
            platform: {
                "info": {"subdir": platform},
                "packages": dict(_virtual_package(*item, platform) for item in system.items()),
            },
        },
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _spec(dependency: CondaDependency) -> dict[str, Any]:
    return {
        "name": dependency.name,
        "manager": "conda",
        "category": "main",
        "extras": [],
        "version": dependency.version,
        "build": dependency.build or None,
        "conda_channel": dependency.channel or None,
        "hash": None,
    }


def _virtual_package(name: str, text: str, platform: str) -> tuple[str, dict[str, Any]]:
    version, _, build = text.partition(" ")
    full_build = f"{build}_0" if build else "0"
    return f"{name}-{version}-{full_build}.tar.bz2", {
        "name": name,
        "version": version,
        "build_string": build,
        "build_number": 0,
        "noarch": "",
        "depends": [],
        "timestamp": _BUILT,
        "package_type": "virtual_system",
        "build": full_build,
        "subdir": platform,
    }
