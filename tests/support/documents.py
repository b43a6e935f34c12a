"""What commands print for programs, held against the published schemas."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema

from cuwheel.base.paths import ROOT

SCHEMAS = ROOT / "docs" / "reference" / "schemas"


def read_document(text: str, schema: str) -> dict[str, Any]:
    """The one document that a command printed.

    Args:
        text: of its standard output, or of a file.
        schema: which one it has to be; nothing may stand in it that the schema doesn't name.
    """
    document: dict[str, Any] = json.loads(text)
    validator(schema).validate(document)
    return document


def read_documents(text: str, schema: str) -> list[dict[str, Any]]:
    """Those that a command printed, a line each."""
    return [read_document(line, schema) for line in text.splitlines()]


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """Of a published schema, closed: what a later version may add is unknown now."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(_closed(schema))


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return {**closed, **{name: _closed(one) for name, one in schema.items()}}
