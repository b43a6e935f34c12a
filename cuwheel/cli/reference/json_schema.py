"""The JSON schema of a document, from its fields, their types and its docstrings.

JSON Schema 2020-12 (https://json-schema.org/draft/2020-12). A reader of a schema may meet fields
that it doesn't know: those of a later minor version.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NewType, Union

from cuwheel.cli.reference.pages import Docstring, read_docstring

if TYPE_CHECKING:
    from cuwheel.system.output.documents import Document

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


def schema_of(document: type[Document]) -> dict[str, Any]:
    """The schema of a kind of documents.

    Args:
        document: a dataclass with a `SCHEMA`.

    Raises:
        TypeError: a field's type has no form in JSON, or two types have one name.
    """
    name, version = document.SCHEMA.name, document.SCHEMA.version
    owners: dict[str, type] = {}
    definitions: dict[str, Any] = {}
    body = _object(document, owners, definitions)
    own = {
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
        "properties": {**own, **body["properties"]},
        "required": [*own, *body["required"]],
        **({"$defs": dict(sorted(definitions.items()))} if definitions else {}),
    }


def _object(kind: type, owners: dict[str, type], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a dataclass; those of the dataclasses in it go into `definitions`."""
    docstring = read_docstring(kind)
    meanings = meanings_of(docstring)
    hints = typing.get_type_hints(kind, localns=_names_of(kind))
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
    """The schema of a field's type.

    Raises:
        TypeError: it has no form in JSON.
    """
    if isinstance(kind, NewType):
        kind = kind.__supertype__
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _reference(kind, owners, definitions)
    if typing.get_origin(kind) is typing.Literal:
        return {"enum": list(typing.get_args(kind))}
    arguments = [one for one in typing.get_args(kind) if one is not ...]
    return _container(kind, [_schema(one, owners, definitions) for one in arguments])


def _container(kind: Any, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The schema of a type that is made of others."""
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
    """The schema of a dataclass stands once, by its name.

    Raises:
        TypeError: another one has the name.
    """
    name = kind.__name__
    if owners.setdefault(name, kind) is not kind:
        raise TypeError(f"two types are called {name}: {kind} and {owners[name]}")
    if name not in definitions:
        definitions[name] = {}
        definitions[name] = _object(kind, owners, definitions)
    return {"$ref": f"#/$defs/{name}"}


def _union(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One of several schemas; words beside any other text say nothing, and are left out."""
    if {"type": "string"} in parts:
        parts = [one for one in parts if "enum" not in one]
    words = [word for one in parts for word in one.get("enum", ())]
    others = [
        one for index, one in enumerate(parts) if "enum" not in one and one not in parts[:index]
    ]
    parts = [*([{"enum": words}] if words else ()), *others]
    return parts[0] if len(parts) == 1 else {"anyOf": parts}


def meanings_of(docstring: Docstring) -> dict[str, str]:
    """What a docstring says of each field; `low, high: …` is about two."""
    return {
        name.strip(): text for names, text in docstring.entries.items() for name in names.split(",")
    }


def _names_of(kind: type) -> dict[str, Any]:
    """What the modules of a dataclass and its bases import for their annotations alone."""
    found: dict[str, Any] = {}
    for one in kind.__mro__:
        module = sys.modules[one.__module__]
        if module.__name__.startswith("cuwheel."):
            for node in ast.walk(ast.parse(inspect.getsource(module))):
                if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                    found |= _imported(node)
    return found


def _imported(block: ast.If) -> dict[str, Any]:
    return {
        alias.asname or alias.name: getattr(importlib.import_module(node.module), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def extends(new: Any, old: Any) -> bool:
    """Whether a schema differs from an older one by additions alone: fields, words, definitions.

    Texts for people don't count.
    """
    if not (isinstance(new, dict) and isinstance(old, dict)):
        return bool(new == old)
    new, old = _without_texts(new), _without_texts(old)
    if "enum" in new and "enum" in old:
        return set(old["enum"]) <= set(new["enum"])
    for name in {*new, *old} - {"properties", "$defs", "required"}:
        if name not in new or name not in old or not _is_like(new[name], old[name]):
            return False
    parts = [(new.get(one, {}), old.get(one, {})) for one in ("properties", "$defs")]
    return set(old.get("required", ())) <= set(new.get("required", ())) and all(
        name in after and extends(after[name], before[name])
        for after, before in parts
        for name in before
    )


def _is_like(new: Any, old: Any) -> bool:
    """`extends` of what isn't a named part: `items`, `anyOf`."""
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(extends, new, old))
    return extends(new, old)


def _without_texts(schema: dict[str, Any]) -> dict[str, Any]:
    texts = {"$id", "title", "description"}
    return {name: one for name, one in schema.items() if name not in texts}
