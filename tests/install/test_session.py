"""A wheel brought into a real environment by real installers, or refused, or taken back."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import (
    DownloadError,
    HashMismatchError,
    InstallError,
    NoFittingWheelError,
    PolicyError,
    SmokeError,
    WheelStatementError,
)
from cuwheel.model.link import External
from cuwheel.model.recipe import Smoke
from cuwheel.system.files import sha256_of_file
from cuwheel.wheel.publication import statement_of
from tests.support.attested import make_keys, signed, write_policy
from tests.support.factories import HASTY
from tests.support.installed import (
    BROKEN,
    Installing,
    offer,
    state,
    toy,
    versions,
)
from tests.support.server import Site, serving

if TYPE_CHECKING:
    from pathlib import Path


def test_installs_newest_of_the_targets_cuda(installing: Installing) -> None:
    for version in ("1.0+cu130", "1.1+cu130", "2.0+cu122", "3.0"):
        offer(installing.dist, version)

    done = installing.run()

    assert versions(installing.environment) == ["1.1+cu130"]
    assert (done.how, done.was_there) == ("wheel", False)
    assert done.trial is not None
    assert done.trial.imported == ("toy",)
    assert done.statement is not None
    assert done.statement.builder == "urn:test"


def test_installs_what_a_policy_lets_pass(installing: Installing) -> None:
    keys = make_keys(installing.folder / "keys", "alice", "bob")
    wheel = offer(installing.dist)
    policy = write_policy(installing.folder / "rebuilders.txt", 2, keys)
    elsewhere = installing.folder / "elsewhere"
    elsewhere.mkdir()
    for name, folder in (("alice", installing.dist), ("bob", elsewhere)):
        statement = signed(wheel, keys[name])
        (folder / statement.name).write_bytes(statement.content)
    before = state(installing.environment)

    with pytest.raises(PolicyError, match="by 1 of the 2 that the policy requires: alice"):
        installing.run(policy=policy, fallback="build")

    assert state(installing.environment) == before
    assert installing.built == 0
    done = installing.run(policy=policy, statements=(elsewhere,))
    assert done.rebuilt_by == ("alice", "bob")
    assert versions(installing.environment) == ["1.0+cu130"]


def test_asks_a_server_for_statements_beside_the_wheel(
    installing: Installing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    keys = make_keys(installing.folder / "keys", "alice")
    wheel = offer(installing.folder / "made")
    policy = write_policy(installing.folder / "rebuilders.txt", 1, keys)
    statement = signed(wheel, keys["alice"])
    page = f'<a href="/files/{wheel.name}#sha256={sha256_of_file(wheel)}">{wheel.name}</a>'
    files = {"/simple/toy/": page.encode(), f"/files/{wheel.name}": wheel.read_bytes()}
    with serving(Site(files=files)) as site:
        addresses = (site.url("/simple/"),)
        with pytest.raises(PolicyError, match="by 0 of the 1"):
            installing.run(policy=policy, addresses=addresses)
        site.files[f"/files/{statement.name}"] = statement.content

        done = installing.run(policy=policy, addresses=addresses)

    assert done.rebuilt_by == ("alice",)


def test_asks_nobody_about_what_was_built_here(installing: Installing) -> None:
    policy = write_policy(
        installing.folder / "rebuilders.txt", 1, make_keys(installing.folder / "keys", "alice")
    )

    done = installing.run(policy=policy, fallback="build")

    assert (done.how, done.rebuilt_by, installing.built) == ("build", (), 1)


def test_server_that_refuses_to_be_asked_hinders_no_policy_that_is_met(
    installing: Installing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    keys = make_keys(installing.folder / "keys", "alice")
    wheel = offer(installing.folder / "made")
    policy = write_policy(installing.folder / "rebuilders.txt", 1, keys)
    statement = signed(wheel, keys["alice"])
    elsewhere = installing.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / statement.name).write_bytes(statement.content)
    page = f'<a href="/files/{wheel.name}#sha256={sha256_of_file(wheel)}">{wheel.name}</a>'
    files = {"/simple/toy/": page.encode(), f"/files/{wheel.name}": wheel.read_bytes()}
    # Nobody is let in where the statement would be, without the status of what isn't there.
    moved = {f"/files/{statement.name.replace('+', '%2B')}": "/files"}
    with serving(Site(files=files, moved={**moved, "/files": "/files"})) as site:
        addresses = (site.url("/simple/"),)

        done = installing.run(policy=policy, addresses=addresses, statements=(elsewhere,))

    assert done.rebuilt_by == ("alice",)


def test_takes_nothing_but_what_was_built(installing: Installing) -> None:
    """What lies beside it in dist/ was downloaded: nobody has built it here or rebuilt it."""
    policy = write_policy(
        installing.folder / "rebuilders.txt", 1, make_keys(installing.folder / "keys", "alice")
    )
    offer(installing.folder / "built", "99.0+cu130")

    done = installing.run(policy=policy, fallback="build")

    assert done.what.startswith("toy-9.0+cu130-")
    assert versions(installing.environment) == ["9.0+cu130"]


def test_does_not_go_back_to_an_artifact_after_a_build(installing: Installing) -> None:
    broken = offer(installing.folder / "made", "99.0+cu130", BROKEN)
    artifact = installing.folder / "wheels.zip"
    with zipfile.ZipFile(artifact, "w") as archive:
        archive.write(broken, broken.name)

    done = installing.run(addresses=(), artifacts=(artifact,), fallback="build")

    assert "99.0+cu130" in done.because
    assert versions(installing.environment) == ["9.0+cu130"]


def test_does_nothing_twice(installing: Installing) -> None:
    offer(installing.dist)
    installing.run()
    before = state(installing.environment)

    again = installing.run()

    assert again.was_there
    assert state(installing.environment) == before


def test_exchanges_other_bytes_of_the_same_version(installing: Installing) -> None:
    offer(installing.dist, content="VERSION = 'old'\nadd = lambda a, b: a + b\n")
    installing.run()
    offer(installing.dist)

    assert not installing.run().was_there

    assert b"'1.0+cu130'" in state(installing.environment)["toy.py"]


def test_dry_run_changes_nothing(installing: Installing) -> None:
    offer(installing.dist)
    before = state(installing.environment)

    done = installing.run(is_dry=True)

    assert (done.what, done.trial) == ("toy-1.0+cu130-py3-none-any.whl", None)
    assert " install " in done.command
    assert state(installing.environment) == before


def test_brings_requirements_and_keeps_what_is_there(installing: Installing) -> None:
    offer(installing.folder / "links", "1.0", name="other", stated=None)
    offer(installing.dist, "1.0+cu130", requires=("other",))
    installing.run()
    offer(installing.folder / "links", "2.0", name="other", stated=None)
    offer(installing.dist, "2.0+cu130", requires=("other>=2",))
    before = state(installing.environment)

    with pytest.raises(InstallError) as caught:
        installing.run()

    assert "other" in caught.value.why
    assert state(installing.environment) == before
    assert versions(installing.environment, "other") == ["1.0"]


@pytest.mark.parametrize(
    ("content", "words"),
    [(BROKEN, "undefined symbol: toy"), ("def add(a, b):\n    return 7\n", "returns 7, not 3")],
)
def test_brings_back_what_was_there_where_smoke_fails(
    content: str, words: str, installing: Installing
) -> None:
    offer(installing.folder / "links", "1.0", name="other", stated=None)
    offer(installing.dist, "1.0+cu130")
    installing.run()
    before = state(installing.environment)
    offer(installing.dist, "2.0+cu130", content, requires=("other",))

    with pytest.raises(SmokeError, match="doesn't work") as caught:
        installing.run()

    assert words in caught.value.why
    assert state(installing.environment) == before


def test_removes_what_never_was_there_where_smoke_fails(installing: Installing) -> None:
    before = state(installing.environment)
    offer(installing.dist, "2.0+cu130", BROKEN)

    with pytest.raises(SmokeError):
        installing.run()

    assert state(installing.environment) == before


def test_says_that_the_interpreter_died(installing: Installing) -> None:
    offer(installing.dist, content="import os\nos.kill(os.getpid(), 11)\n")

    with pytest.raises(SmokeError) as caught:
        installing.run()

    assert "SIGSEGV" in caught.value.why
    assert versions(installing.environment) == []


def test_brings_what_the_targets_extra_requires(installing: Installing) -> None:
    offer(installing.folder / "links", "1.0", name="other", stated=None)
    offer(installing.dist, requires=('other; extra == "cuda13"',))
    mode = External(extra="cuda{cuda}")

    installing.run()
    assert versions(installing.environment, "other") == []
    again = installing.run(toy(mode=mode))

    assert again.was_there
    assert versions(installing.environment, "other") == ["1.0"]


def test_does_not_try_what_needs_a_driver(installing: Installing) -> None:
    words = "libcuda.so.1: cannot open shared object file: No such file or directory"
    offer(installing.dist, content=f"raise ImportError({words!r})\n")

    done = installing.run()

    assert done.trial is not None
    assert "driver" in done.trial.left_out[0]


def test_leaves_out_script_whose_requirements_are_not_there(installing: Installing) -> None:
    offer(installing.dist)
    smoke = Smoke(imports=("toy",), requires=("scipy",), script="toy.py")

    done = installing.run(toy(smoke=smoke))

    assert done.trial is not None
    assert done.trial.left_out == ("toy.py, which needs scipy",)


@pytest.mark.parametrize("fallback", ["fail", "requirement", "build"])
def test_refuses_statement_about_other_bytes_whatever_the_fallback(
    fallback: str, installing: Installing
) -> None:
    offer(installing.dist, stated="0" * 64)

    with pytest.raises(WheelStatementError, match="not about this wheel"):
        installing.run(fallback=fallback)

    assert versions(installing.environment) == []
    assert installing.built == 0


def test_refuses_wheel_that_the_index_does_not_name(
    installing: Installing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    wheel = offer(installing.dist, stated=None)
    site = Site()
    site.files["/f/toy-1.0+cu130-py3-none-any.whl"] = wheel.read_bytes()
    page = f'<a href="/f/toy-1.0%2Bcu130-py3-none-any.whl#sha256={"0" * 64}">{wheel.name}</a>'
    site.files["/simple/toy/"] = page.encode()

    with serving(site), pytest.raises(HashMismatchError):
        installing.run(addresses=(site.url("/simple/"),), fallback="build")

    assert versions(installing.environment) == []


def test_installs_from_an_index_with_its_statement(
    installing: Installing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    wheel = offer(installing.dist)
    site = Site()
    # Without a hash on the page: the statement's counts.
    page = f'<a href="/f/{wheel.name.replace("+", "%2B")}">{wheel.name}</a>'
    site.files["/simple/toy/"] = page.encode()
    site.files[f"/f/{wheel.name}"] = wheel.read_bytes()
    site.files[f"/f/{statement_of(wheel).name}"] = statement_of(wheel).read_bytes()

    with serving(site):
        done = installing.run(addresses=(site.url("/simple/"),), needs_statement=True)

    assert done.statement is not None
    assert versions(installing.environment) == ["1.0+cu130"]


def test_refuses_wheel_of_which_nobody_states_a_hash(
    installing: Installing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    site = Site()
    wheel = offer(installing.dist)
    name = wheel.name
    site.files["/simple/toy/"] = f'<a href="/f/{name.replace("+", "%2B")}">{name}</a>'.encode()
    site.files[f"/f/{name}"] = wheel.read_bytes()

    with serving(site), pytest.raises(NoFittingWheelError, match="no SHA-256 for toy"):
        installing.run(addresses=(site.url("/simple/"),))


def test_asks_for_a_statement(installing: Installing) -> None:
    offer(installing.dist, stated=None)

    with pytest.raises(WheelStatementError, match="no statement"):
        installing.run(needs_statement=True)


def test_takes_wheels_of_an_artifact(installing: Installing) -> None:
    wheel = offer(installing.dist)
    artifact = installing.folder / "wheels.zip"
    with zipfile.ZipFile(artifact, "w") as archive:
        for path in (wheel, statement_of(wheel)):
            archive.write(path, f"some/folder/{path.name}")

    done = installing.run(addresses=(), artifacts=(artifact,), needs_statement=True)

    assert done.statement is not None
    assert versions(installing.environment) == ["1.0+cu130"]


@pytest.mark.parametrize("fallback", ["fail", "build"])
def test_refuses_to_exchange_what_could_not_be_put_back(
    fallback: str, installing: Installing
) -> None:
    """Packages of conda and Debian may have no RECORD."""
    offer(installing.dist, "1.0+cu130")
    installing.run()
    [record] = installing.environment.glob("lib/python*/site-packages/toy-*.dist-info/RECORD")
    record.unlink()
    offer(installing.dist, "2.0+cu130")
    before = state(installing.environment)

    with pytest.raises(InstallError) as caught:
        installing.run(fallback=fallback)

    assert caught.value.what == "toy 1.0+cu130 has no RECORD, so it couldn't be restored"
    assert state(installing.environment) == before
    assert installing.built == 0


def test_leaves_no_empty_folder(
    installing: Installing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    installing.dist.mkdir()

    with pytest.raises(NoFittingWheelError):
        installing.run()

    assert list(temporary.iterdir()) == []


def test_names_nearest_wheel_where_none_fits(installing: Installing) -> None:
    offer(installing.dist, tag="cp38-cp38-win_amd64")

    with pytest.raises(NoFittingWheelError) as caught:
        installing.run()

    assert "win_amd64" in caught.value.why
    assert "--fallback build" in caught.value.fix


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an index at which nobody answers."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("cuwheel.pick.choice.ask_indexes.__defaults__", (HASTY,))
    return "http://127.0.0.1:9/simple/"


def test_says_that_no_index_could_be_asked(installing: Installing, nowhere: str) -> None:
    with pytest.raises(DownloadError) as caught:
        installing.run(addresses=(nowhere,))

    assert caught.value.what == "no index could be queried for toy"
    assert f"{nowhere}: 127.0.0.1: " in caught.value.why
    assert "check its address and the network" in caught.value.fix


def test_names_nearest_wheel_and_the_index_that_could_not_be_asked(
    installing: Installing, nowhere: str
) -> None:
    offer(installing.dist, tag="cp38-cp38-win_amd64")

    with pytest.raises(NoFittingWheelError) as caught:
        installing.run(addresses=(installing.dist.as_uri(), nowhere))

    assert f"{nowhere} couldn't be queried" in caught.value.why


def test_builds_where_no_index_could_be_asked(installing: Installing, nowhere: str) -> None:
    done = installing.run(addresses=(nowhere,), fallback="build")

    assert (done.how, installing.built) == ("build", 1)
    assert done.because.startswith("no index could be queried for toy")


@pytest.mark.parametrize("content", [None, BROKEN])
def test_builds_where_none_fits_or_works(content: str | None, installing: Installing) -> None:
    installing.dist.mkdir()
    if content:
        offer(installing.dist, content=content)

    done = installing.run(fallback="build")

    assert (done.how, installing.built) == ("build", 1)
    assert done.because
    assert versions(installing.environment) == ["9.0+cu130"]


def test_takes_requirement_where_none_fits(installing: Installing) -> None:
    installing.dist.mkdir()
    offer(installing.folder / "links", "1.0", stated=None)

    done = installing.run(fallback="requirement")

    assert (done.how, done.what) == ("requirement", "toy==1.0")
    assert versions(installing.environment) == ["1.0"]


def test_requirement_is_never_compiled(installing: Installing) -> None:
    installing.dist.mkdir()
    (installing.folder / "links" / "toy-1.0.tar.gz").write_bytes(b"")

    with pytest.raises(InstallError):
        installing.run(fallback="requirement")


def test_dry_run_tells_of_the_fallback(installing: Installing) -> None:
    installing.dist.mkdir()

    assert installing.run(fallback="build", is_dry=True).how == "build"
    assert installing.run(fallback="requirement", is_dry=True).what == "toy==1.0"
    assert installing.built == 0
