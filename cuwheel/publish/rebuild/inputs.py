"""Inputs of a published wheel compared with a checkout, whose recipes must only declare."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import cuwheel
from cuwheel.base.errors import NotReproducibleError, RecipeError, UsageError
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.regular_files import read_module
from cuwheel.build.pipeline.engine_code import code_of_builds, digest_of_code
from cuwheel.publish.rebuild.published import PublishedWheel

_CODE = "cuwheel"  # the material that is cuwheel's own code
_SHOWN = 16  # characters of a hash
_NEEDED = ("recipe", "toolkit", "python")  # parameters
_GIVEN = "given with --source"
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv)
_PLAIN = (
    *(ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Starred, ast.keyword, ast.Load),
    *(ast.JoinedStr, ast.FormattedValue, ast.BinOp, ast.UnaryOp, ast.USub, *_OPERATORS),
)


def check_is_enough(theirs: PublishedWheel, source: Path | None, target_root: Path | None) -> None:
    """Raise a UsageError that names all that a statement lacks for building again."""
    missing = [f"the parameter {name}" for name in _NEEDED if not theirs.parameters.get(name)]
    kinds = {name.partition(" ")[0] for name in theirs.hashes}
    missing += [f"the hash of its {kind}" for kind in ("recipe", "lock") if kind not in kinds]
    missing += [] if _CODE in theirs.hashes else ["the hash of cuwheel's code"]
    if missing:
        raise UsageError(
            f"{theirs.named.name} can't be rebuilt from its provenance",
            why=f"its provenance lacks {', '.join(missing)}"
            if theirs.statement
            else "there is no provenance beside it",
            fix=f"`nox -s verify -- TARGET --against {theirs.named}` builds it from this checkout, "
            "and compares",
        )
    if theirs.parameters.get("source") == _GIVEN and source is None:
        state = f" ({theirs.source_state})" if theirs.source_state else ""
        if state and not theirs.source_state.endswith("unchanged"):
            state += ", so that no commit alone has these files"
        raise UsageError(
            f"the source of {theirs.named.name} can't be fetched",
            why=f"according to its provenance it was given with --source{state}",
            fix="get that source, unchanged, from the publisher of the wheel, and give it: "
            "--source DIR",
        )
    platform = theirs.foreign_platform
    if platform and target_root is None:
        raise UsageError(
            f"{theirs.named.name} is for {platform.machine}, and no root folder of such a "
            "machine is given",
            why="compiling it here needs that machine's Python headers",
            fix="give one: --target-root DIR (docs/how-to/arm64.md), or build on "
            f"{platform.machine}",
        )


def target_of(theirs: PublishedWheel) -> str:
    """Return the target's name on a command line: `causal-conv1d-130`."""
    parameters = theirs.parameters
    return f"{parameters['recipe']}-{parameters['toolkit'].replace('.', '')}"


def differing_inputs(
    theirs: PublishedWheel, root: Path, projects: Sequence[Path]
) -> tuple[str, ...]:
    """Return a line for each file that isn't in a checkout as it went into the wheel."""
    stated, lines = theirs.hashes, []
    if (here := digest_of_code(code_of_builds(root), root)) != stated[_CODE]:
        lines.append(f"cuwheel's code: {stated[_CODE][:_SHOWN]} there, {here[:_SHOWN]} here")
    module = theirs.parameters["recipe"].replace("-", "_")
    for name, digest in stated.items():
        path = _path_of(name, module)
        if not path:
            continue
        file = next((project / path for project in projects if (project / path).is_file()), None)
        here = sha256_of_file(file) if file else "nothing"
        if here != digest:
            lines.append(f"{path}: {digest[:_SHOWN]} there, {here[:_SHOWN]} here")
    return tuple(lines)


def _path_of(material: str, module: str) -> str:
    """Return a material's path in a project; empty for what isn't one of its files."""
    kind, _, name = material.partition(" ")
    folders = {
        "recipe": "",
        "lock": "" if name.startswith("envs/") else "envs/",
        "patch": f"patches/{module}/",
        "smoke": "recipes/smoke/",
    }
    if kind not in folders or ".." in name.split("/"):
        return ""
    return f"{folders[kind]}{name}".lstrip("/")


def refuse_other_inputs(theirs: PublishedWheel, lines: Sequence[str], why_here: str) -> None:
    """Raise an NotReproducibleError if a checkout isn't the one that built the wheel."""
    if lines:
        raise NotReproducibleError(
            f"{theirs.named.name} was built from files that differ from this checkout",
            why="\n".join((*lines, why_here)),
            fix="fetch the publisher's branch with git, and name its remote: --remote NAME; or "
            "build from this checkout: --here",
        )


def keep_declarations(recipe: str, root: Path, projects: Sequence[Path], commit: str) -> None:
    """Remove from a checkout every recipe that does more than declare.

    Args:
        recipe: path of the recipe that is built, in its project: `recipes/x.py`.
        projects: folders with recipes; those outside of it are the caller's own.

    Raises:
        RecipeError: the recipe that is built does more itself, or leads out of the checkout.
    """
    for project in projects:
        if not project.is_relative_to(root):
            continue
        folder = project / "recipes"
        if not folder.resolve().is_relative_to(root.resolve()):
            raise _refusal(folder, root, commit, "it is a link that leads out of the checkout")
        for path in sorted(folder.glob("*.py")):
            if not (why := why_not_plain(path)):
                continue
            if f"recipes/{path.name}" == recipe:
                raise _refusal(path, root, commit, why)
            path.unlink()


def why_not_plain(path: Path) -> str:
    """Return the reason why a recipe's module does more than declare; empty if it doesn't."""
    if path.is_symlink() or not path.is_file():
        return "it isn't a file"
    try:
        tree = read_module(path)
    except (OSError, ValueError) as problem:
        return f"it can't be parsed: {problem}"
    known: set[str] = set()
    for statement in tree.body:
        if not _is_plain_statement(statement, known):
            return f"line {statement.lineno} is no declaration: {ast.unparse(statement)[:80]}"
    return ""


def _is_plain_statement(statement: ast.stmt, known: set[str]) -> bool:
    """Return True if it is an import of declarations, a text, or a plain value with a name.

    Args:
        known: names so far; gets those of this statement.
    """
    if isinstance(statement, ast.ImportFrom):
        return _is_import_of_declarations(statement, known)
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if not isinstance(statement, ast.Assign):
        return False
    names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if len(names) != len(statement.targets) or {*names} & {*cuwheel.__all__}:
        return False
    is_plain = _is_plain_value(statement.value, known)
    known.update(names)
    return is_plain


def _is_import_of_declarations(statement: ast.ImportFrom, known: set[str]) -> bool:
    names = [name.name for name in statement.names]
    if (statement.module, statement.level) == ("__future__", 0):
        return True
    known.update(names)
    is_ours = (statement.module, statement.level) == ("cuwheel", 0)
    return is_ours and {*names} <= {*cuwheel.__all__} and not any(a.asname for a in statement.names)


def _is_plain_value(value: ast.AST, known: set[str]) -> bool:
    """Return True if evaluating an expression does nothing but make values and declarations."""
    if isinstance(value, ast.Name):
        return value.id in known
    if isinstance(value, ast.Call):
        is_ours = isinstance(value.func, ast.Name) and value.func.id in cuwheel.__all__
        parts: Sequence[ast.AST] = (*value.args, *value.keywords)
        return is_ours and all(_is_plain_value(part, known) for part in parts)
    return isinstance(value, _PLAIN) and all(
        _is_plain_value(part, known) for part in ast.iter_child_nodes(value)
    )


def _refusal(path: Path, root: Path, commit: str, why: str) -> RecipeError:
    return RecipeError(
        f"{path.relative_to(root)} of commit {commit} isn't run",
        why=f"a recipe of another commit may only declare, and {why}",
        fix="read it; if it does what you want, check that commit out, and rebuild there with "
        "--here",
    )
