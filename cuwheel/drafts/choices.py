"""From a survey to a draft: which value each field gets, why, and what can't be known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from cuwheel.drafts.build_choice import choose_build, choose_resources
from cuwheel.drafts.draft import Call, Draft, Field, Note, find_out, guess
from cuwheel.drafts.requirement_choice import choose_requires, choose_smoke
from cuwheel.drafts.target_choice import choose_archs, choose_framework, choose_link, choose_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.drafts.readers.metadata import Fact
    from cuwheel.drafts.readers.survey import Survey
    from cuwheel.drafts.upstream import Upstream

NOBODY = "your-name"  # the handle that the recipe's check refuses
_OLDEST_PYTHON = "3.10"  # the recipe's own default
_FOREIGN = re.compile(r"(^|/)(cutlass|third_party|composable_kernel)/")  # headers, mostly
_SHOWN = 4  # licence files that a note names


def draft_of(upstream: Upstream, survey: Survey, maintainer: str) -> Draft:
    """Choose a value for every field.

    Args:
        upstream: the release.
        survey: what its source says.
        maintainer: the handle of who writes the recipe; empty: not known.
    """
    metadata = survey.metadata
    page = metadata.homepage
    fields = (
        Field(name="name", value=canonicalize_name(upstream.project)),
        Field(name="version", value=upstream.version),
        Field(name="license", value=metadata.license.value, notes=tuple(_about_license(survey))),
        Field(
            name="homepage",
            value=page.value,
            notes=tuple(_about_page(page)),
        ),
        Field(
            name="maintainers",
            value=(maintainer or NOBODY,),
            notes=() if maintainer else (find_out("your GitHub handle"),),
        ),
        Field(
            name="source",
            value=Call(
                name="Sdist", given={"project": upstream.project, "sha256": upstream.sha256}
            ),
        ),
        *choose_framework(survey),
        choose_archs(survey),
        *choose_python(survey),
        *_requires_python(survey),
        *choose_resources(survey),
        choose_requires(survey),
        choose_build(survey),
        choose_link(survey),
        choose_smoke(survey),
        *_size(survey),
    )
    order = {name: number for number, name in enumerate(_ORDER)}
    return Draft(
        name=canonicalize_name(upstream.project),
        summary=metadata.summary,
        fields=tuple(sorted(fields, key=lambda one: order[one.name])),
    )


_ORDER = (
    *("name", "version", "license", "homepage", "maintainers", "source", "toolkits", "archs"),
    *("python", "requires_python", "framework", "patches", "resources", "requires", "build"),
    *("link", "smoke", "memory_per_job"),
)


def _about_page(page: Fact) -> Iterator[Note]:
    if not page.value:
        yield find_out("upstream's home page, https://…")
    elif "link" in page.where:
        yield guess(f"{page.where}; the metadata has none")


def _about_license(survey: Survey) -> Iterator[Note]:
    said = survey.metadata.license
    if not said.value:
        files = sorted(path.name for path in survey.tree.glob("LICEN[CS]E*"))
        where = f"read {files[0]}" if files else "the source has no licence file: ask upstream"
        yield find_out(f"its SPDX name ({where}); https://spdx.org/licenses lists them")
    elif "text of" in said.where:
        yield guess(f"from {said.where}; the metadata has none")
    elif "Expression" not in said.where:
        yield guess(said.where)
    others = {f"{one.where} ({one.value or 'unknown'})": one for one in _foreign(survey)}
    if others:
        shown = ", ".join([*others][:_SHOWN])
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        yield find_out(f"whether bundled code adds a licence: {shown}{more}")


def _foreign(survey: Survey) -> Iterator[Fact]:
    """Licences that differ from the package's own."""
    own = survey.metadata.license.value
    yield from (one for one in survey.metadata.other_licenses if one.value != own)


def _requires_python(survey: Survey) -> Iterator[Field]:
    """Only where it says more than the recipe's default."""
    said = survey.metadata.requires_python
    if not said.value:
        return
    asked = SpecifierSet(said.value)
    lowest = [Version(one.version) for one in asked if one.operator in {">=", "~=", ">"}]
    oldest = max([Version(_OLDEST_PYTHON), *lowest])
    others = sorted(str(one) for one in asked if one.operator in {"<", "<=", "!="})
    text = ",".join([f">={oldest.major}.{oldest.minor}", *others])
    if text != f">={_OLDEST_PYTHON}":
        note = guess(f"{said.where}, Requires-Python: {said.value}")
        yield Field(name="requires_python", value=text, notes=(note,))


def _size(survey: Survey) -> Iterator[Field]:
    kernels = [name for name in survey.device_files if name.endswith(".cu")]
    kernels = [name for name in kernels if not _FOREIGN.search(name)] or kernels
    if not kernels:
        return
    folders = sorted({re.sub(r"/[^/]*$", "", name) for name in kernels})
    text = (
        f"how much memory a compile needs: {len(kernels)} .cu files in "
        f"{folders[0]}{' and elsewhere' if len(folders) > 1 else ''}, each of which takes from "
        "seconds to minutes for each arch; the default is 2 GiB, `nox -s profile` measures it"
    )
    yield Field(name="memory_per_job", value=None, notes=(find_out(text),))
