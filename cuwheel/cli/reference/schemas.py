"""All documents for programs: their schemas as files, and a page that describes them.

JSON Schema 2020-12 (https://json-schema.org/draft/2020-12), from the documents' fields, types and
docstrings. A reader of a schema may meet fields that it doesn't know: those of a later minor
version.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NewType, Union

from cuwheel.base.errors import UsageError
from cuwheel.base.system.output.documents import Document
from cuwheel.base.system.regular_files import parse_json, read_text
from cuwheel.cli.reference.pages import MARK, Docstring, page, read_docstring

# Module and class of each. By name, as the commands import the pages' writer.
_NAMES = (
    "publish.rebuild.attest.check.PolicyVerdict",
    "check.audit.report.AuditDocument",
    "cli.commands.build.BuildDocument",
    "cli.commands.maintain.cache.CacheDocument",
    "cli.commands.maintain.cache.CachePruneDocument",
    "publish.rebuild.compare.differences.WheelComparison",
    "check.diagnose.document.DiagnoseDocument",
    "base.system.output.documents.ErrorDocument",
    "check.explain.explain.ExplainDocument",
    "check.explain.explain.AnswerDocument",
    "cli.commands.maintain.index.IndexDocument",
    "publish.index.check.report.IndexCheckDocument",
    "cli.commands.get.GetDocument",
    "cli.commands.install.InstallDocument",
    "cli.commands.maintain.pins.LockCheckDocument",
    "cli.commands.maintain.pins.LockVerifyDocument",
    "lab.day_zero.verdict.DayZeroDocument",
    "lab.matrix.github.MatrixDocument",
    "lab.nightly.record.NightlyRun",
    "build.drafts.updates.outdated.OutdatedDocument",
    "lab.perf.records.PerfRun",
    "check.pick.document.PickDocument",
    "check.pick.stack_report.StackDocument",
    "lab.profile.report.ProfileDocument",
    "lab.profile.misses.CacheWhyDocument",
    "publish.rebuild.documents.RebuildDocument",
    "publish.release.release.ReleaseDocument",
    "publish.release.record.Release",
    "cli.commands.slim.SlimDocument",
    "cli.commands.build.SmokeDocument",
    "cli.commands.build.StageDocument",
    "publish.rebuild.verify.Verified",
    "publish.rebuild.documents.WheelVerification",
)
FOLDER = "docs/reference/schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: dict[Any, dict[str, Any]] = {
    Any: {},
    bool: {"type": "boolean"},
    float: {"type": "number"},
    int: {"type": "integer"},
    types.NoneType: {"type": "null"},
    Path: {"type": "string"},
    str: {"type": "string"},
}
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


def _named(name: str) -> type[Document]:
    module, _, kind = name.rpartition(".")
    document: type[Document] = getattr(import_module(f"cuwheel.{module}"), kind)
    return document


DOCUMENTS = tuple(map(_named, _NAMES))


def schema_of(document: type[Document]) -> dict[str, Any]:
    """Return the schema of a kind of documents.

    Args:
        document: a dataclass with a `SCHEMA`.

    Raises:
        TypeError: a field's type has no form in JSON, or two types have one name.
    """
    name, version = document.SCHEMA.name, document.SCHEMA.version
    owners: dict[str, type] = {}
    definitions: dict[str, Any] = {}
    body = _object(document, owners, definitions)
    fields = {
        "schema": {"const": name, "description": "Which form this is."},
        "schema_version": {
            "type": "string",
            "pattern": rf"^{document.SCHEMA.major}\.\d+$",
            "description": f"Of the form; {version} is the newest that this schema knows.",
        },
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:cuwheel:schema:{name}:{version}",
        "title": f"cuwheel {name} {version}",
        **body,
        "properties": {**fields, **body["properties"]},
        "required": [*fields, *body["required"]],
        **({"$defs": dict(sorted(definitions.items()))} if definitions else {}),
    }


def _object(kind: type, owners: dict[str, type], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a dataclass; those of dataclasses in it go into `definitions`."""
    docstring = read_docstring(kind)
    meanings = meanings_of(docstring)
    hints = typing.get_type_hints(kind)
    properties = {}
    for field in dataclasses.fields(kind):
        meaning = {"description": meanings[field.name]} if field.name in meanings else {}
        properties[field.name] = {**_schema(hints[field.name], owners, definitions), **meaning}
    return {
        "type": "object",
        "description": docstring.text,
        "properties": properties,
        "required": list(properties),
    }


def _schema(kind: Any, owners: dict[str, type], definitions: dict[str, Any]) -> dict[str, Any]:
    if isinstance(kind, NewType):
        kind = kind.__supertype__
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _reference(kind, owners, definitions)
    if typing.get_origin(kind) is typing.Literal:
        return {"enum": list(typing.get_args(kind))}
    arguments = [argument for argument in typing.get_args(kind) if argument is not ...]
    return _container(kind, [_schema(argument, owners, definitions) for argument in arguments])


def _container(kind: Any, parts: list[dict[str, Any]]) -> dict[str, Any]:
    origin = typing.get_origin(kind)
    if origin in {Union, types.UnionType}:
        return _union(parts)
    if origin in {dict, Mapping}:
        return {"type": "object", "additionalProperties": parts[1]}
    if origin is tuple and typing.get_args(kind)[1:] == (...,):
        return {"type": "array", "items": parts[0]}
    if origin is tuple:
        return {"type": "array", "prefixItems": parts, "items": False, "minItems": len(parts)}
    raise TypeError(f"{kind!r} has no form in JSON")


def _reference(kind: type, owners: dict[str, type], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the reference to a dataclass's schema, which is defined once, by its name."""
    name = getattr(kind, "SCHEMA_NAME", kind.__name__)
    if owners.setdefault(name, kind) is not kind:
        raise TypeError(f"two types are called {name}: {kind} and {owners[name]}")
    if name not in definitions:
        definitions[name] = {}
        definitions[name] = _object(kind, owners, definitions)
    return {"$ref": f"#/$defs/{name}"}


def _union(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one schema for several; words next to any other text are left out."""
    if {"type": "string"} in parts:
        parts = [part for part in parts if "enum" not in part]
    words = [word for part in parts for word in part.get("enum", ())]
    others = []
    for part in parts:
        if "enum" not in part and part not in others:
            others.append(part)
    parts = [*([{"enum": words}] if words else ()), *others]
    return parts[0] if len(parts) == 1 else {"anyOf": parts}


def meanings_of(docstring: Docstring) -> dict[str, str]:
    """Return a docstring's text about each field; `low, high: …` is about two."""
    return {
        name.strip(): text for names, text in docstring.entries.items() for name in names.split(",")
    }


def schema_files() -> dict[str, str]:
    """Return the text of each schema, by its path relative to the repository."""
    return {
        f"{FOLDER}/{document.SCHEMA.name}.json": json.dumps(schema_of(document), indent=2) + "\n"
        for document in DOCUMENTS
    }


def check_versions(root: Path) -> None:
    """Check that no schema on disk changes without a new version of its document.

    Raises:
        UsageError: one would; texts for people don't count.
    """
    for document in DOCUMENTS:
        path = root / FOLDER / f"{document.SCHEMA.name}.json"
        if path.is_file():
            check_version(document, parse_json(read_text(path)))


def check_version(document: type[Document], before: dict[str, Any]) -> None:
    """Check the same for one document and its schema on disk."""
    now, version = schema_of(document), document.SCHEMA.version
    if before["$id"] != now["$id"] or _without_texts(before) == _without_texts(now):
        return
    raise UsageError(
        f"the form of the document `{document.SCHEMA.name}` has changed, and its version is still "
        f"{version}",
        why="programs read it by the schema of that version",
        fix=f"raise the version in {document.__module__}.{document.__name__}.SCHEMA: the second "
        "number if something was added, else the first; then `nox -s docs`",
    )


def _without_texts(schema: Any) -> Any:
    """Return a schema without descriptions; the order of fields doesn't count."""
    if isinstance(schema, list):
        return [_without_texts(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without_texts(part)
        for name, part in schema.items()
        if name != "description" or not isinstance(part, str)
    }


def schemas_page() -> str:
    """Return docs/reference/json.md."""
    form = "## `{0}`\n\n[Version {1}](schemas/{0}.json). {2}"
    schemas = [(document.SCHEMA, read_docstring(document).summary) for document in DOCUMENTS]
    return page(
        [
            "# What programs get",
            MARK.format(source="the types of what commands print"),
            _INTRO,
            *(form.format(schema.name, schema.version, text) for schema, text in schemas),
        ]
    )
