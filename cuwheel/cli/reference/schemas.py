"""All documents for programs: their schemas as files, and a page that describes them."""

from __future__ import annotations

import inspect
import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cuwheel.cli.reference.json_schema import extends, schema_of
from cuwheel.cli.reference.pages import MARK, code, page, table
from cuwheel.errors import UsageError
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cuwheel.system.output.documents import Document

# Module and class of each. By name, as the commands import the pages' writer.
_NAMES = (
    "cli.commands.report.attestations.AttestationsDocument",
    "audit.report.AuditDocument",
    "cli.commands.build.build.BuildDocument",
    "cli.commands.maintain.cache.CacheDocument",
    "cli.commands.maintain.cache.CachePruneDocument",
    "verify.compare.report.ComparisonDocument",
    "diagnose.document.DiagnoseDocument",
    "system.output.documents.ErrorDocument",
    "explain.report.ExplainDocument",
    "explain.report.AnswerDocument",
    "cli.commands.maintain.index.IndexDocument",
    "index.check.report.IndexCheckDocument",
    "cli.commands.target.install.InstallDocument",
    "cli.commands.maintain.lock.LockCheckDocument",
    "cli.commands.maintain.lock.LockVerifyDocument",
    "matrix.github.MatrixDocument",
    "nightly.record.NightlyRun",
    "updates.report.OutdatedDocument",
    "perf.records.PerfRun",
    "pick.document.PickDocument",
    "profile.report.ProfileDocument",
    "verify.document.RebuildDocument",
    "release.session.ReleaseDocument",
    "release.record.Release",
    "cli.commands.target.smoke.SmokeDocument",
    "cli.commands.build.build.StageDocument",
    "verify.document.VerifyDocument",
    "verify.wheel_record.WheelVerification",
)
FOLDER = "docs/reference/schemas"
_INTRO = """\
With `--json` a command prints only documents to standard output: JSON objects, one per line. A
command for several targets or wheels prints one line for each as it finishes, other commands print
one line. A command that fails before it has a result prints an [`error`](#error); the exit code is
the same with and without `--json`.

Each document names its schema: `schema`, and `schema_version`. The minor version is raised when
something is added: fields, or values that a field can have; readers should ignore what they don't
know. The major version is raised when readers of an earlier version may fail. No field is ever
omitted; a field without a value is null or empty. [schemas/](schemas) has a JSON schema (2020-12)
of each."""
# What a schema says of a type, by the keyword that it says it with.
_IN_WORDS: dict[str, Callable[[Any], str]] = {
    "$ref": lambda named: f"[{named[8:]}](#{named[8:].lower()})",  # behind `#/$defs/`
    "anyOf": lambda parts: " or ".join(map(_type, parts)),
    "enum": lambda words: ", ".join(code(json.dumps(word)) for word in words),
    "prefixItems": lambda parts: f"array: {', '.join(map(_type, parts))}",
    "items": lambda part: f"array of {_type(part)}",
    "additionalProperties": lambda part: f"object, each value {_type(part)}",
    "type": str,
}


def _named(name: str) -> type[Document]:
    module, _, kind = name.rpartition(".")
    found: type[Document] = getattr(import_module(f"cuwheel.{module}"), kind)
    return found


DOCUMENTS = tuple(map(_named, _NAMES))


def schema_files() -> dict[str, str]:
    """Each schema: path relative to the repository, and text."""
    return {
        f"{FOLDER}/{one.SCHEMA.name}.json": json.dumps(schema_of(one), indent=2) + "\n"
        for one in DOCUMENTS
    }


def check_versions(root: Path) -> None:
    """See that the schemas on disk were changed by what their versions say alone.

    Args:
        root: of the repository.

    Raises:
        UsageError: a document has changed, and the number that says so hasn't been raised.
    """
    for document in DOCUMENTS:
        path = root / FOLDER / f"{document.SCHEMA.name}.json"
        if path.is_file():
            check_version(document, json.loads(read_text(path)))


def check_version(document: type[Document], before: dict[str, Any]) -> None:
    """See that a document differs from its earlier schema by what its version says alone.

    Args:
        document: as it is now.
        before: the schema.

    Raises:
        UsageError: it differs by more.
    """
    now, said = schema_of(document), before["$id"].rpartition(":")[2]
    name, version = document.SCHEMA.name, document.SCHEMA.version
    if extends(now, before) and (extends(before, now) or version != said):
        return
    is_addition = extends(now, before)
    if not is_addition and document.SCHEMA.major != said.partition(".")[0]:
        return
    what = "has more in it" if is_addition else "is another"
    number = "second" if is_addition else "first"
    raise UsageError(
        f"the form of the document `{name}` {what}, and its version is still {version}",
        why=f"programs read it by the schema of {said}",
        fix=f"raise the {number} number in {inspect.getmodule(document).__name__}."  # type: ignore[union-attr]
        f"{document.__name__}.SCHEMA, then `nox -s docs`",
    )


def schemas_page() -> str:
    """docs/reference/json.md: what programs get."""
    rows = (
        (f"[`{one.SCHEMA.name}`](#{one.SCHEMA.name})", one.SCHEMA.version, _summary(schema_of(one)))
        for one in DOCUMENTS
    )
    parts = [
        "# What programs get",
        MARK.format(source="the types of what commands print"),
        _INTRO,
        table(("schema", "version", "what"), rows),
    ]
    told: set[str] = set()
    for document in DOCUMENTS:
        parts += _sections(schema_of(document), document.SCHEMA.name, told)
    return page(parts)


def _summary(schema: dict[str, Any]) -> str:
    return " ".join(schema["description"].partition("\n\n")[0].split())


def _sections(schema: dict[str, Any], name: str, told: set[str]) -> Iterator[str]:
    """A document, and the types in it that no document before has told of."""
    yield f"## {name}"
    yield f"{schema['description']} [Schema](schemas/{name}.json)."
    yield _fields(schema, without=("schema", "schema_version"))
    for kind, part in schema.get("$defs", {}).items():
        if kind not in told:
            told.add(kind)
            yield f"### {kind}"
            yield part["description"]
            yield _fields(part)


def _fields(schema: dict[str, Any], without: tuple[str, ...] = ()) -> str:
    rows = (
        (code(name), _type(one), one.get("description", ""))
        for name, one in schema["properties"].items()
        if name not in without
    )
    return table(("field", "type", "meaning"), rows)


def _type(schema: dict[str, Any]) -> str:
    """A type in words."""
    keyword = next((one for one in _IN_WORDS if one in schema), "")
    return _IN_WORDS[keyword](schema[keyword]) if keyword else "anything"
