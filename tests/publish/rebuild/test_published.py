"""Published wheels and statements, from which a verification starts, also by their address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import DownloadError, HashMismatchError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.build.workspace.request import BuildRequest
from cuwheel.publish.rebuild.published import (
    check_is_of,
    fetch_published,
    is_address,
    read_published,
)
from tests.support.publish.published_wheels import CONTENT, DIGEST, publish
from tests.support.servers.http import Site, serving


def provenance_of(wheel: Path) -> Path:
    return wheel.with_name(f"{wheel.name}.provenance.json")


@pytest.mark.parametrize("named", [lambda wheel: wheel, provenance_of])
def test_reads_wheel_and_provenance_alike(named: Any, tmp_path: Path) -> None:
    result = read_published(named(publish(tmp_path)))

    assert (result.sha256, result.wheel) == (DIGEST, tmp_path / "x-1.0-py3-none-any.whl")
    # Before pinned compilers none was stated: it was the machine's.
    assert result.request == BuildRequest(
        arch=("80", "90"), python=("3.12",), link="external", host_compiler="system"
    )


def test_reads_provenance_without_its_wheel(tmp_path: Path) -> None:
    wheel = publish(tmp_path)
    wheel.unlink()

    assert read_published(provenance_of(wheel)).wheel is None


def test_reads_wheel_without_provenance(tmp_path: Path) -> None:
    wheel = publish(tmp_path)
    provenance_of(wheel).unlink()

    assert read_published(wheel).request == BuildRequest()


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"subject": []}', '{"subject": [{"name": "x", "digest": {}}]}'],
)
def test_refuses_what_is_no_statement(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.provenance.json"
    path.write_text(content)

    with pytest.raises(UsageError, match="neither a wheel nor the provenance"):
        read_published(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("python", "/tmp/python"),
        ("framework", "--offline"),
        ("platform", "--offline"),
        ("archs", ("90", "--work=/")),
        ("archs", "90"),
        ("container", ("debian",)),
    ],
)
def test_refuses_statement_that_would_be_an_option(name: str, value: Any, tmp_path: Path) -> None:
    wheel = publish(tmp_path, parameters=((name, value),))

    with pytest.raises(UsageError) as caught:
        read_published(wheel)

    assert name in caught.value.why


def test_refuses_wheel_that_is_not_the_statements(tmp_path: Path) -> None:
    wheel = publish(tmp_path)
    wheel.write_bytes(b"another")

    with pytest.raises(UsageError) as caught:
        read_published(provenance_of(wheel))

    assert "not the wheel that the provenance describes" in caught.value.why


def test_refuses_damaged_wheel_before_building(tmp_path: Path) -> None:
    (tmp_path / "x-1.0-py3-none-any.whl").write_bytes(b"")

    with pytest.raises(UsageError, match="can't be read as a wheel"):
        read_published(tmp_path / "x-1.0-py3-none-any.whl")


def test_refuses_wheel_of_another_recipe(tmp_path: Path) -> None:
    theirs = read_published(publish(tmp_path))

    check_is_of(theirs, "causal-conv1d", "130")
    with pytest.raises(UsageError) as caught:
        check_is_of(theirs, "jaxmg", "128")

    assert caught.value.fix.startswith("nox -s verify -- causal-conv1d-130 --against ")


_NAME = "x-1.0-py3-none-any.whl"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    statement = publish(tmp_path).with_name(f"{_NAME}.provenance.json").read_bytes()
    files = {f"/files/{_NAME}": CONTENT, f"/files/{_NAME}.provenance.json": statement}
    with serving(Site(files=files)) as site:
        yield site


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (_NAME, _NAME),
        (f"{_NAME}#sha256={DIGEST}", _NAME),
        (_NAME.replace("-", "%2D"), _NAME),
        (f"{_NAME}.provenance.json", f"{_NAME}.provenance.json"),
        (f"{_NAME}?token=secret", _NAME),
    ],
)
def test_fetches_both_from_the_address_of_either(
    path: str, named: str, site: Site, tmp_path: Path
) -> None:
    if "?" in path:  # a server with a token for each file
        site.files = {f"{name}?token=secret": one for name, one in site.files.items()}
    result = fetch_published(site.url(f"/files/{path}"), tmp_path / "fetched", Console())

    assert result.name == named
    theirs = read_published(result)
    assert (theirs.sha256, theirs.wheel) == (DIGEST, tmp_path / "fetched" / _NAME)


def test_fetches_statement_of_a_wheel_that_is_gone(site: Site, tmp_path: Path) -> None:
    del site.files[f"/files/{_NAME}"]
    address = site.url(f"/files/{_NAME}.provenance.json")

    result = fetch_published(address, tmp_path / "fetched", Console())

    assert read_published(result).wheel is None
    with pytest.raises(DownloadError):
        fetch_published(address.removesuffix(".provenance.json"), tmp_path / "f", Console())


def test_refuses_other_bytes_than_the_address_names(site: Site, tmp_path: Path) -> None:
    with pytest.raises(HashMismatchError):
        fetch_published(site.url(f"/files/{_NAME}#sha256={'0' * 64}"), tmp_path / "f", Console())


def test_wheel_without_statement_is_an_error(site: Site, tmp_path: Path) -> None:
    del site.files[f"/files/{_NAME}.provenance.json"]

    with pytest.raises(DownloadError, match=r"provenance\.json"):
        fetch_published(site.url(f"/files/{_NAME}"), tmp_path / "fetched", Console())


@pytest.mark.parametrize("path", ["/files/", "/files/x.tar.gz", "/files/..%2Fx.json"])
def test_refuses_address_of_something_else(path: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a wheel"):
        fetch_published(f"http://127.0.0.1:9{path}", tmp_path / "fetched", Console())


@pytest.mark.parametrize("name", ["..%2F..%2Fevil.whl", "%2Fetc%2Fevil.whl"])
def test_writes_nowhere_else(name: str, site: Site, tmp_path: Path) -> None:
    for path in ("/files/../../evil.whl", "/files//etc/evil.whl"):
        site.files[path] = site.files[f"{path}.provenance.json"] = CONTENT
    folder = tmp_path / "a" / "b" / "fetched"

    assert fetch_published(site.url(f"/files/{name}"), folder, Console()) == folder / "evil.whl"

    assert {path.parent for path in tmp_path.rglob("evil*")} == {folder}


def test_knows_addresses_from_files() -> None:
    assert is_address("https://example.org/x.whl")
    assert not is_address("dist/x.whl")
