"""A source's metadata: licence, page, Pythons, requirements."""

from __future__ import annotations

import contextlib
import email.parser
import email.policy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cuwheel.base.system.regular_files import open_regular, read_text
from cuwheel.build.environments.requirements import read_pyproject
from cuwheel.build.recipe.cells import PYTHONS

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
# Sentences that only one licence's text has.
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
_LINUX = {"os_name": "posix", "platform_system": "Linux", "sys_platform": "linux"}
_SOURCES = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp")
_HEAD = 4096  # bytes, where a source states its licence
_LICENSE_FILES = ("LICEN[CS]E*", "COPYING*")
# The address, and in it the repository's name.
_REPOSITORY = re.compile(
    r"(https://(?:www\.)?(?:github\.com|gitlab\.com|codeberg\.org)/[\w.-]+/([\w-]+(?:\.(?!git\b)[\w-]+)*))"
)
_PAGES = ("homepage", "home", "source", "repository", "source code", "github", "code")


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A fact, and its file and line; no fact: `value` is empty."""

    value: str = ""
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """Metadata of a source.

    Attributes:
        homepage: `https://…`; without a field of it, of a repository that the README names.
        requires: for Linux and the Pythons that recipes are built for.
        dynamic: the build computes the requirements.
        tools: the table `tool` of pyproject.toml.
        other_licenses: of bundled sources: the file that states each, and its SPDX name.
    """

    summary: str
    license: Fact
    homepage: Fact
    requires_python: Fact
    requires: tuple[str, ...]
    dynamic: bool
    tools: dict[str, Any]
    other_licenses: tuple[Fact, ...]


def read_metadata(tree: Path) -> Metadata:
    """Read PKG-INFO and pyproject.toml of a source; a missing file gives empty facts.

    A repository has no PKG-INFO: its fields are then those of pyproject.toml.
    """
    path = tree / "PKG-INFO"
    pyproject = read_pyproject(tree)
    project = pyproject.get("project", {})
    has_fields = path.is_file()
    text = read_text(path, errors="replace") if has_fields else "\n".join(_fields(project))
    fields = email.parser.Parser(policy=email.policy.compat32).parsestr(text)
    required = fields.get_all("Requires-Dist", project.get("dependencies", _egg_info(tree)))
    dynamic = {*project.get("dynamic", ()), *map(str.lower, fields.get_all("Dynamic", []))}
    return Metadata(
        summary=_clean(fields.get("Summary", project.get("description", ""))),
        license=_license(tree, text, fields.get_all("Classifier", [])),
        homepage=_homepage(text, tree, fields.get("Name", project.get("name", ""))),
        requires_python=_field(text, "Requires-Python"),
        requires=tuple(sorted({str(requirement) for requirement in _on_linux(required)})),
        dynamic=bool({"dependencies", "requires-dist"} & dynamic) or not (has_fields or project),
        tools=pyproject.get("tool", {}),
        other_licenses=tuple(_other_licenses(tree)),
    )


def _fields(project: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of the table `project` as PKG-INFO has them (PEP 621)."""
    license_ = project.get("license", "")
    single = {
        "Summary": project.get("description", ""),
        "License-Expression": license_ if isinstance(license_, str) else license_.get("text", ""),
        "Requires-Python": project.get("requires-python", ""),
    }
    yield from (f"{name}: {value}" for name, value in single.items() if "\n" not in value)
    yield from (f"Classifier: {text}" for text in project.get("classifiers", ()))
    yield from (f"Project-URL: {name}, {url}" for name, url in project.get("urls", {}).items())


def _egg_info(tree: Path) -> list[str]:
    """Return the first section of setuptools' requires.txt; old PKG-INFOs have no requirements."""
    for path in (*tree.glob("*.egg-info/requires.txt"), *tree.glob("*/*.egg-info/requires.txt")):
        lines = read_text(path, errors="replace").partition("[")[0].splitlines()
        return [line for line in lines if line.strip()]
    return []


def _clean(text: str) -> str:
    """Return a field's value; setuptools wrote UNKNOWN where it had none."""
    return "" if text.strip() in {"UNKNOWN", ""} else " ".join(text.split())


def _field(text: str, name: str, part: str = "") -> Fact:
    """Return the first field of a PKG-INFO with a name and a part of its value."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line:
            break
        field, _, value = line.partition(": ")
        if field == name and _clean(value) and part in value:
            return Fact(value=_clean(value), where=f"PKG-INFO:{number}")
    return Fact()


def _license(tree: Path, text: str, classifiers: list[str]) -> Fact:
    for name in ("License-Expression", "License"):
        field = _field(text, name)
        with contextlib.suppress(InvalidLicenseExpression):
            expression = canonicalize_license_expression(field.value)
            return Fact(value=expression, where=f"{field.where}, {name}")
    for classifier in classifiers:
        if spdx := _CLASSIFIERS.get(classifier.rpartition(" :: ")[2], ""):
            where = _field(text, "Classifier", classifier).where
            return Fact(value=spdx, where=f"{where}, Classifier")
    for path in (path for pattern in _LICENSE_FILES for path in sorted(tree.glob(pattern))):
        if path.is_file() and (spdx := _spdx_of_text(path)):
            return Fact(value=spdx, where=f"the text of {path.name}")
    return Fact()


def _spdx_of_text(path: Path) -> str:
    return _spdx_of(read_text(path, errors="replace"))


def _spdx_of(text: str) -> str:
    return next((spdx for pattern, spdx in _TEXTS if re.search(pattern, text)), "")


def _other_licenses(tree: Path) -> Iterator[Fact]:
    """Yield licences of bundled sources: their files, and at the top of a source itself."""
    covered: list[Path] = [tree / ".git"]
    for pattern in _LICENSE_FILES:
        for path in sorted(tree.rglob(pattern)):
            name = path.relative_to(tree)
            if len(name.parts) > 1 and path.is_file() and ".egg-info" not in str(name):
                covered.append(path.parent)
                yield Fact(value=_spdx_of_text(path), where=name.as_posix())
    for path in sorted(tree.rglob("*")):
        is_plain = path.is_file() and not path.is_symlink()
        if path.suffix in _SOURCES and is_plain and not {*covered} & {*path.parents}:
            with open_regular(path) as file:
                head = file.read(_HEAD).decode(errors="replace")
            if spdx := _spdx_of(head):
                yield Fact(value=spdx, where=path.relative_to(tree).as_posix())


def _homepage(text: str, tree: Path, name: str) -> Fact:
    page = _field(text, "Home-page")
    pages = {}
    for number, line in enumerate(text.splitlines(), 1):
        label, _, url = line.removeprefix("Project-URL: ").partition(", ")
        if line.startswith("Project-URL: "):
            pages[label.lower()] = Fact(value=url.strip(), where=f"PKG-INFO:{number}")
    if not page.value:
        page = next((pages[label] for label in _PAGES if label in pages), page)
    if not page.value:
        page = _repository(tree, name)
    return replace(page, value=re.sub("^http:", "https:", page.value))


def _repository(tree: Path, name: str) -> Fact:
    """Return the first address of a repository with the project's name in a README or PKG-INFO."""
    paths = [path for path in (*sorted(tree.glob("README*")), tree / "PKG-INFO") if path.is_file()]
    for path in paths:
        for number, line in enumerate(read_text(path, errors="replace").splitlines(), 1):
            for address, repository in _REPOSITORY.findall(line):
                if canonicalize_name(repository) == canonicalize_name(name):
                    return Fact(value=address, where=f"an address in {path.name}:{number}")
    return Fact()


def _on_linux(texts: list[str]) -> Iterator[Requirement]:
    """Yield requirements for Linux and a Python that recipes are built for."""
    for text in texts:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        marker = requirement.marker
        applies = [marker is None or marker.evaluate(_environment(python)) for python in PYTHONS]
        if any(applies):
            requirement.marker = None if all(applies) else marker
            yield requirement


def _environment(python: str) -> dict[str, str]:
    versions = {"python_version": python, "python_full_version": f"{python}.0"}
    return {**_LINUX, **versions, "extra": ""}
