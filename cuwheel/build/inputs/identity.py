"""The identity of a source given with `--source`, checked against the recipe's."""

from __future__ import annotations

import ast
import configparser
import email.parser
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from cuwheel.base.errors import SourceError
from cuwheel.base.system.regular_files import read_module, read_text
from cuwheel.build.environments.requirements import read_pyproject
from cuwheel.build.recipe.recipe import Recipe
from cuwheel.build.recipe.source import Sdist

_COMPUTED = ("attr:", "file:")  # setup.cfg: the value is somewhere else


def stated_identity(tree: Path) -> tuple[str, str]:
    """Return name and version that a source states; empty: its backend computes it."""
    stated: dict[str, str] = {}
    project = read_pyproject(tree).get("project", {})
    # The last one counts most.
    tables = (_read_setup_py(tree), _read_pkg_info(tree), _read_setup_cfg(tree), project)
    for table in filter(lambda table: isinstance(table, dict), tables):
        stated |= {key: value for key, value in table.items() if isinstance(value, str)}
    return stated.get("name", ""), stated.get("version", "")


def check_identity(recipe: Recipe, name: str, version: str) -> None:
    """Check name and version of a source against the recipe.

    Args:
        name: that the source or its wheel states; empty: not known.
        version: likewise; a local part doesn't count.

    Raises:
        SourceError: they are another package's or release's.
    """
    names = {canonicalize_name(recipe.name)}
    if isinstance(recipe.source, Sdist):
        names.add(canonicalize_name(recipe.source.project))
    if name and canonicalize_name(name) not in names:
        raise SourceError(
            f"the source given with --source is of {name}, not of {recipe.name}",
            why=f"its metadata says so; the wheel would be published as one of {recipe.name}",
            fix=f"give a source of {recipe.name} {recipe.version}; a package of its own gets a "
            f"recipe of its own: nox -s new -- {canonicalize_name(name)}",
        )
    if version and _public(version) != _public(recipe.version):
        raise SourceError(
            f"the source given with --source is {recipe.name} {version}, not {recipe.version}",
            why=f"{recipe.module} declares version {recipe.version}, with patches and locks for it",
            fix=f"check out {recipe.version}, or name the release in place of the target: `nox -s "
            f"build -- {recipe.name}=={_public(version)} --source …`",
        )


def _public(version: str) -> str:
    try:
        return Version(version).public
    except InvalidVersion:
        return version


def _read_setup_cfg(tree: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(read_text(tree / "setup.cfg"))
        metadata = dict(parser["metadata"])
    except (OSError, ValueError, KeyError, configparser.Error):
        return {}
    return {key: value for key, value in metadata.items() if not value.startswith(_COMPUTED)}


def _read_setup_py(tree: Path) -> dict[str, str]:
    """Return the keywords of `setup(…)` that are literals, or constants of the module."""
    try:
        module = read_module(tree / "setup.py")
    except (OSError, ValueError):
        return {}
    constants = {
        target.id: node.value
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    keywords = [part for call in calls if _is_setup(call.func) for part in call.keywords]
    values = {
        part.arg: constants.get(part.value.id) if isinstance(part.value, ast.Name) else part.value
        for part in keywords
        if part.arg
    }
    return {
        name: value.value
        for name, value in values.items()
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    }


def _is_setup(function: ast.expr) -> bool:
    return "setup" in {getattr(function, "id", ""), getattr(function, "attr", "")}


def _read_pkg_info(tree: Path) -> dict[str, str]:
    try:
        text = read_text(tree / "PKG-INFO", errors="replace")
    except OSError:
        return {}
    return {key.lower(): value for key, value in email.parser.Parser().parsestr(text).items()}
