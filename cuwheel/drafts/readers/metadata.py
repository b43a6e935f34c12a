"""What a source's metadata says: licence, page, Pythons, requirements, import names."""

from __future__ import annotations

import email.parser
import email.policy
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import InvalidRequirement, Requirement

from cuwheel.system.parsed_files import read_toml
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


# Trove classifiers that name one licence, with SPDX's name for it (https://spdx.org/licenses);
# "BSD License" and the like name several.
_CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "Boost Software License 1.0 (BSL-1.0)": "BSL-1.0",
    "GNU Affero General Public License v3": "AGPL-3.0-only",
    "GNU General Public License v2 (GPLv2)": "GPL-2.0-only",
    "GNU General Public License v3 (GPLv3)": "GPL-3.0-only",
    "GNU General Public License v3 or later (GPLv3+)": "GPL-3.0-or-later",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "zlib/libpng License": "Zlib",
}
# What people write in the field `License`.
_WORDS = {
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "bsd 2-clause": "BSD-2-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "mit license": "MIT",
    "new bsd": "BSD-3-Clause",
    "the mit license": "MIT",
}
# Sentences that stand in one licence's text alone.
_TEXTS = (
    (r"Apache License\s+Version 2\.0", "Apache-2.0"),
    (r"GNU AFFERO GENERAL PUBLIC LICENSE\s+Version 3", "AGPL-3.0-only"),
    (r"GNU LESSER GENERAL PUBLIC LICENSE\s+Version 3", "LGPL-3.0-only"),
    (r"GNU GENERAL PUBLIC LICENSE\s+Version 3", "GPL-3.0-only"),
    (r"GNU GENERAL PUBLIC LICENSE\s+Version 2", "GPL-2.0-only"),
    (r"Mozilla Public License Version 2\.0", "MPL-2.0"),
    (r"Boost Software License - Version 1\.0", "BSL-1.0"),
    (r"Permission is hereby granted, free of charge", "MIT"),
    (r"Redistribution and use[\s\S]*Neither the name", "BSD-3-Clause"),
    (r"Redistribution and use", "BSD-2-Clause"),
)
_PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
_LINUX = {"os_name": "posix", "platform_system": "Linux", "sys_platform": "linux"}
_LICENSE_FILES = ("LICEN[CS]E*", "COPYING*")
_REPOSITORY = re.compile(r"https://git(?:hub|lab)\.com/[\w.-]+/[\w-]+")
_PAGES = ("homepage", "home", "source", "repository", "source code", "github", "code")


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A fact, and which line of which file says it; no fact: `value` is empty."""

    value: str = ""
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """What the metadata says.

    Attributes:
        summary: one line about the package.
        license: SPDX.
        homepage: `https://…`.
        requires_python: a specifier.
        requires: what the installed wheel needs on Linux, without extras, sorted.
        dynamic: whether the build decides what it requires.
        project: the table `project` of its pyproject.toml.
        tools: the tables `tool` of it.
        other_licenses: licence files of what lies in the tree too, with their SPDX names.
    """

    summary: str
    license: Fact
    homepage: Fact
    requires_python: Fact
    requires: tuple[str, ...]
    dynamic: bool
    project: dict[str, Any]
    tools: dict[str, Any]
    other_licenses: tuple[Fact, ...]


def read_metadata(tree: Path) -> Metadata:
    """Read PKG-INFO and pyproject.toml of a source; what isn't there says nothing."""
    path = tree / "PKG-INFO"
    text = read_text(path, errors="replace") if path.is_file() else ""
    fields = email.parser.Parser(policy=email.policy.compat32).parsestr(text)
    pyproject = _read_toml(tree / "pyproject.toml")
    project = pyproject.get("project", {})
    required = fields.get_all("Requires-Dist", project.get("dependencies", _of_egg_info(tree)))
    dynamic = {*project.get("dynamic", ()), *map(str.lower, fields.get_all("Dynamic", []))}
    return Metadata(
        summary=_known(fields.get("Summary", project.get("description", ""))),
        license=_license(tree, text, fields.get_all("Classifier", [])),
        homepage=_homepage(text),
        requires_python=_line_of(text, "Requires-Python"),
        requires=tuple(sorted({str(one) for one in _on_linux(required)})),
        dynamic=bool({"dependencies", "requires-dist"} & dynamic),
        project=project,
        tools=pyproject.get("tool", {}),
        other_licenses=tuple(_other_licenses(tree)),
    )


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except (OSError, ValueError):
        return {}


def _of_egg_info(tree: Path) -> list[str]:
    """The first section of setuptools' requires.txt; old PKG-INFOs state no requirements."""
    for path in (*tree.glob("*.egg-info/requires.txt"), *tree.glob("*/*.egg-info/requires.txt")):
        lines = read_text(path, errors="replace").partition("[")[0].splitlines()
        return [line for line in lines if line.strip()]
    return []


def _known(text: str) -> str:
    """A field's value; setuptools wrote UNKNOWN where it had none."""
    return "" if text.strip() in {"UNKNOWN", ""} else " ".join(text.split())


def _line_of(text: str, field: str, value: str = "") -> Fact:
    """The first line of a PKG-INFO with a field, and where."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line:
            break
        name, _, said = line.partition(": ")
        if name == field and _known(said) and value in said:
            return Fact(value=_known(said), where=f"PKG-INFO:{number}")
    return Fact()


def _license(tree: Path, text: str, classifiers: list[str]) -> Fact:
    for field in ("License-Expression", "License"):
        said = _line_of(text, field)
        if spdx := _as_spdx(said.value):
            return Fact(value=spdx, where=f"{said.where}, {field}")
    for classifier in classifiers:
        if spdx := _CLASSIFIERS.get(classifier.rpartition(" :: ")[2], ""):
            where = _line_of(text, "Classifier", classifier).where
            return Fact(value=spdx, where=f"{where}, Classifier")
    for path in _license_files(tree):
        if spdx := _spdx_of_text(path):
            return Fact(value=spdx, where=f"the text of {path.name}")
    return Fact()


def _as_spdx(text: str) -> str:
    words = _WORDS.get(text.lower().strip(" ."), text)
    try:
        return canonicalize_license_expression(words) if words else ""
    except InvalidLicenseExpression:
        return ""


def _license_files(folder: Path) -> list[Path]:
    found = (path for pattern in _LICENSE_FILES for path in sorted(folder.glob(pattern)))
    return [path for path in found if path.is_file()]


def _spdx_of_text(path: Path) -> str:
    text = read_text(path, errors="replace")
    return next((spdx for pattern, spdx in _TEXTS if re.search(pattern, text)), "")


def _other_licenses(tree: Path) -> Iterator[Fact]:
    """Licences of what a source brings along, as in `third_party/` and `vendor/`."""
    for pattern in _LICENSE_FILES:
        for path in sorted(tree.rglob(pattern)):
            name = path.relative_to(tree)
            if len(name.parts) > 1 and path.is_file() and ".egg-info" not in str(name):
                yield Fact(value=_spdx_of_text(path), where=name.as_posix())


def _homepage(text: str) -> Fact:
    """The page that the metadata name, else the first repository that the text links."""
    found = _line_of(text, "Home-page")
    pages = {}
    for number, line in enumerate(text.splitlines(), 1):
        label, _, url = line.removeprefix("Project-URL: ").partition(", ")
        if line.startswith("Project-URL: "):
            pages[label.lower()] = Fact(value=url.strip(), where=f"PKG-INFO:{number}")
        elif linked := _REPOSITORY.search(line):
            pages.setdefault("linked", Fact(value=linked[0], where=f"PKG-INFO:{number}, a link"))
    if not found.value:
        found = next((pages[name] for name in (*_PAGES, "linked") if name in pages), found)
    return replace(found, value=re.sub("^http:", "https:", found.value))


def _on_linux(texts: list[str]) -> Iterator[Requirement]:
    """Requirements that count on Linux for a Python that recipes are built for."""
    for text in texts:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        counts = [_counts(requirement, release) for release in _PYTHONS]
        if any(counts):
            requirement.marker = None if all(counts) else requirement.marker
            yield requirement


def _counts(requirement: Requirement, python: str) -> bool:
    if requirement.marker is None:
        return True
    versions = {"python_version": python, "python_full_version": f"{python}.0"}
    return requirement.marker.evaluate({**_LINUX, **versions, "extra": ""})
