"""What programs get: each document's schema, its version, and a test that holds real ones to it."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import jsonschema
import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.output.documents import Document, Schema
from cuwheel.cli.reference.schemas import (
    DOCUMENTS,
    FOLDER,
    check_version,
    check_versions,
    schema_of,
)
from cuwheel.cli.reference.write import write_documents
from tests.support.documents import SCHEMAS, validator

NAMES = sorted(one.SCHEMA.name for one in DOCUMENTS)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part."""

    path: Path


@dataclass(frozen=True, kw_only=True)
class Example:
    """An example.

    Attributes:
        low, high: two of them.
        state: how it is.
    """

    SCHEMA: ClassVar[Schema] = Schema("example", "1.0")

    low: int
    high: float | None
    state: Literal["good", "bad"]
    parts: tuple[Part, ...]
    pair: tuple[str, bool]
    named: dict[str, Part]


def changed(version: str = "1.0", **fields: Any) -> type[Document]:
    """The example with other fields; None takes one away."""
    copy = {**Example.__annotations__, **fields}
    result: type[Document] = make_dataclass(
        "Example",
        [(name, kind) for name, kind in copy.items() if kind is not None and name != "SCHEMA"],
        namespace={"SCHEMA": Schema("example", version), "__module__": __name__},
    )
    return result


def test_schema_follows_the_types() -> None:
    schema = schema_of(Example)

    jsonschema.Draft202012Validator.check_schema(schema)
    properties = schema["properties"]
    assert properties["high"] == {
        "anyOf": [{"type": "number"}, {"type": "null"}],
        "description": "two of them.",
    }
    assert properties["state"] == {"enum": ["good", "bad"], "description": "how it is."}
    assert properties["parts"] == {"type": "array", "items": {"$ref": "#/$defs/Part"}}
    assert properties["pair"]["prefixItems"] == [{"type": "string"}, {"type": "boolean"}]
    assert properties["named"]["additionalProperties"] == {"$ref": "#/$defs/Part"}
    assert schema["required"] == list(properties)


def test_refuses_type_that_json_lacks() -> None:
    with pytest.raises(TypeError, match="has no form in JSON"):
        schema_of(changed(parts=set[str]))


@pytest.mark.parametrize(
    "after",
    [
        changed(more=str),
        changed(state=Literal["good", "bad", "ugly"]),
        changed(low=str),
        changed(state=None),
    ],
)
def test_change_without_its_version_is_refused(after: type[Document]) -> None:
    with pytest.raises(UsageError, match="the form of the document `example` has changed"):
        check_version(after, schema_of(changed()))


@pytest.mark.parametrize(
    "after",
    [changed(), changed("1.1", more=str), changed("2.0", low=str), changed("2.0", state=None)],
)
def test_change_with_its_version_passes(after: type[Document]) -> None:
    check_version(after, schema_of(changed()))


def test_texts_are_no_change() -> None:
    check_version(changed(), schema_of(Example))


def test_writes_nothing_where_a_version_is_missing(tmp_path: Path) -> None:
    """As a developer would do it: a field is gone, and `nox -s docs` is run."""
    shutil.copytree(SCHEMAS, tmp_path / FOLDER)
    path = tmp_path / FOLDER / "audit.json"
    schema = json.loads(path.read_text())
    schema["properties"]["gone"] = {"type": "string"}
    path.write_text(json.dumps(schema))

    with pytest.raises(UsageError, match="the form of the document `audit` has changed"):
        write_documents(tmp_path)

    assert json.loads(path.read_text()) == schema


def test_every_document_is_published() -> None:
    result = re.compile(r'^    SCHEMA: ClassVar\[Schema\] = Schema\("(.*?)"', re.MULTILINE)
    sources = (path.read_text() for path in (ROOT / "cuwheel").rglob("*.py"))

    assert sorted(name for text in sources for name in result.findall(text)) == NAMES


def test_versions_of_the_published_schemas_hold() -> None:
    check_versions(ROOT)

    assert sorted(path.stem for path in SCHEMAS.iterdir()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_published_schema_is_one(name: str) -> None:
    refused = {"schema": "other", "schema_version": "1.0"}

    assert not validator(name).is_valid(refused)


@pytest.fixture(scope="module")
def tests() -> str:
    """The text of all other tests."""
    others = (path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__))
    return "\n".join(path.read_text() for path in others)


@pytest.mark.parametrize("name", NAMES)
def test_real_documents_are_held_to_the_schema(name: str, tests: str) -> None:
    """In a test of the command that prints them."""
    assert re.search(rf'(read_documents?\(|schema = )[^\n]*\n?[^\n]*"{name}"', tests)
