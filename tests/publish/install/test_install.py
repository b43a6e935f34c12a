"""A wheel brought into a real environment by real installers, or refused, or taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import (
    DownloadError,
    HashMismatchError,
    InstallError,
    PolicyError,
    SandboxError,
    SmokeError,
)
from cuwheel.base.formats.wheel.publication import statement_of
from cuwheel.build.recipe.link import External
from cuwheel.build.recipe.recipe import Smoke
from cuwheel.build.sandbox import backends
from cuwheel.check.pick.known_sources import Sources
from tests.support.check.environments import make_driver
from tests.support.factories import compile_device_file, write_wheel
from tests.support.publish.installations import (
    BROKEN,
    GOOD,
    Installing,
    offer,
    state,
    toy,
    versions,
    wheel_site,
)
from tests.support.publish.statements import make_keys, signed, write_policy
from tests.support.requirements import require
from tests.support.servers.http import serving


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


def test_finds_statements_on_a_server_next_to_the_wheel(installing: Installing) -> None:
    keys = make_keys(installing.folder / "keys", "alice")
    wheel = offer(installing.folder / "made")
    policy = write_policy(installing.folder / "rebuilders.txt", 1, keys)
    statement = signed(wheel, keys["alice"])
    with serving(wheel_site(wheel)) as site:
        addresses = (site.url("/simple/"),)
        with pytest.raises(PolicyError, match="by 0 of the 1"):
            installing.run(policy=policy, addresses=addresses)
        site.files[f"/files/{statement.name}"] = statement.content

        done = installing.run(policy=policy, addresses=addresses)

    assert done.rebuilt_by == ("alice",)


def test_refusing_server_hinders_no_policy_that_is_met(installing: Installing) -> None:
    keys = make_keys(installing.folder / "keys", "alice")
    wheel = offer(installing.folder / "made")
    policy = write_policy(installing.folder / "rebuilders.txt", 1, keys)
    statement = signed(wheel, keys["alice"])
    elsewhere = installing.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / statement.name).write_bytes(statement.content)
    # The server refuses access instead of reporting a missing statement.
    server = wheel_site(wheel)
    server.moved = {f"/files/{statement.name.replace('+', '%2B')}": "/files", "/files": "/files"}
    with serving(server) as site:
        addresses = (site.url("/simple/"),)

        done = installing.run(policy=policy, addresses=addresses, statements=(elsewhere,))

    assert done.rebuilt_by == ("alice",)


def test_takes_nothing_but_what_was_built(installing: Installing) -> None:
    """The wheel next to it in dist/ was downloaded, not built here or rebuilt."""
    policy = write_policy(
        installing.folder / "rebuilders.txt", 1, make_keys(installing.folder / "keys", "alice")
    )
    offer(installing.folder / "built", "99.0+cu130")

    done = installing.run(policy=policy, fallback="build")

    assert (done.how, done.rebuilt_by, installing.built) == ("build", (), 1)  # no policy applies
    assert done.what.startswith("toy-9.0+cu130-")
    assert versions(installing.environment) == ["9.0+cu130"]


def test_does_nothing_twice(installing: Installing) -> None:
    offer(installing.dist)
    installing.run()
    before = state(installing.environment)

    again = installing.run()

    assert again.was_there
    assert state(installing.environment) == before


def test_dry_run_changes_nothing(
    installing: Installing, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(installing.folder / "links", "1.0", name="other", stated=None)
    offer(installing.dist, requires=("other",))
    before = state(installing.environment)

    done = installing.run(is_dry=True)

    assert (done.what, done.trial) == ("toy-1.0+cu130-py3-none-any.whl", None)
    assert " install " in done.command
    assert "would bring other-1.0-py3-none-any.whl" in capsys.readouterr().err
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

    assert "other==1.0 would be replaced by other==2.0" in caught.value.why
    assert "other==2.0`, then again" in caught.value.fix
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


def test_reports_that_the_interpreter_died(installing: Installing) -> None:
    offer(installing.dist, content="import os\nos.kill(os.getpid(), 11)\n")

    with pytest.raises(SmokeError) as caught:
        installing.run()

    assert "SIGSEGV" in caught.value.why
    assert versions(installing.environment) == []


@pytest.mark.e2e
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


def test_passes_over_wheel_without_code_for_the_gpu(
    installing: Installing, cuda_home: Path
) -> None:
    """Nothing but its file shows that the newer wheel is for another GPU."""
    folder = installing.folder
    source = folder / "twice.cu"
    source.write_text("__global__ void twice(float *p) { p[threadIdx.x] *= 2; }\n")
    code = compile_device_file(folder / "twice.cubin", cuda_home, source, "80")
    files: dict[str, bytes | Path] = {"toy.py": GOOD.encode(), "t.cubin": code}
    newer = write_wheel(folder / "made", files, name="toy", version="2.0+cu130", tag="py3-none-any")
    older = offer(folder / "made", "1.0+cu130")
    site = wheel_site(older)
    site.files |= wheel_site(newer).files | {
        "/simple/toy/": b"\n".join(
            wheel_site(wheel).files["/simple/toy/"] for wheel in (newer, older)
        )
    }
    environ = installing.environ()
    environ["LD_LIBRARY_PATH"] = str(make_driver(folder / "driver"))  # of an sm_90
    with serving(site):
        done = installing.run(addresses=(site.url("/simple/"),), environ=environ)

    assert done.what == older.name
    assert versions(installing.environment) == ["1.0+cu130"]


def test_leaves_out_script_without_its_requirements(installing: Installing) -> None:
    offer(installing.dist)
    smoke = Smoke(imports=("toy",), requires=("scipy",), script="toy.py")

    done = installing.run(toy(smoke=smoke))

    assert done.trial is not None
    assert done.trial.left_out == ("toy.py, which needs scipy",)


@pytest.mark.e2e
def test_new_wheel_reaches_nothing_outside_while_it_is_tried(installing: Installing) -> None:
    """Neither by its import nor by what its interpreter runs whenever it starts."""
    require("sandbox", "that an installed wheel is tried in a sandbox")
    outside = installing.folder / "outside"
    outside.mkdir()
    attack = f"__import__('os').system('touch {outside}/NAME 2>&-')"
    content = f"{attack.replace('NAME', 'imported')}\n{GOOD.format(version='1.0')}"
    starts = f"import os; {attack.replace('NAME', 'started')}\n".encode()
    links, tag = installing.folder / "links", "py3-none-any"
    write_wheel(links, {"other.pth": starts}, name="other", version="1.0", tag=tag)
    code: dict[str, bytes | Path] = {"toy.py": content.encode()}
    needs = ("other==1.0",)
    write_wheel(installing.dist, code, name="toy", version="1.0+cu130", tag=tag, requires=needs)

    done = installing.run()

    assert done.trial is not None
    assert done.trial.imported == ("toy",)
    assert [path.name for path in outside.iterdir()] == []
    installing.run(sandbox="none")
    assert {path.name for path in outside.iterdir()} == {"imported", "started"}


def test_installs_nothing_where_the_sandbox_does_not_work(
    installing: Installing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options are checked before the environment is changed."""
    offer(installing.dist)
    before = state(installing.environment)
    monkeypatch.setattr(backends, "_SYSTEM_PATH", "/nowhere")  # of bubblewrap
    backends._refusal.cache_clear()

    with pytest.raises(SandboxError, match="bubblewrap"):
        installing.run(sandbox="bubblewrap")

    backends._refusal.cache_clear()
    assert state(installing.environment) == before


@pytest.mark.parametrize("fallback", ["fail", "requirement", "build"])
def test_refuses_statement_about_other_bytes_with_any_fallback(
    fallback: str, installing: Installing
) -> None:
    offer(installing.dist, stated="0" * 64)

    with pytest.raises(PolicyError, match="not about this wheel"):
        installing.run(fallback=fallback)

    assert versions(installing.environment) == []
    assert installing.built == 0


def test_refuses_wheel_that_the_index_does_not_name(installing: Installing) -> None:
    wheel = offer(installing.dist, stated=None)
    site = wheel_site(wheel, sha256="0" * 64)

    with serving(site), pytest.raises(HashMismatchError):
        installing.run(addresses=(site.url("/simple/"),), fallback="build")

    assert versions(installing.environment) == []


def test_installs_from_an_index_with_its_statement(installing: Installing) -> None:
    wheel = offer(installing.dist)
    site = wheel_site(wheel, sha256=None)  # the statement's counts
    site.files[f"/files/{statement_of(wheel).name}"] = statement_of(wheel).read_bytes()

    with serving(site):
        done = installing.run(addresses=(site.url("/simple/"),), needs_statement=True)

    assert done.statement is not None
    assert versions(installing.environment) == ["1.0+cu130"]


def test_refuses_wheel_without_a_hash(installing: Installing) -> None:
    site = wheel_site(offer(installing.dist), sha256=None)

    with serving(site), pytest.raises(InstallError, match="no SHA-256 for toy"):
        installing.run(addresses=(site.url("/simple/"),))


def test_requires_a_statement(installing: Installing) -> None:
    offer(installing.dist, stated=None)

    with pytest.raises(PolicyError, match="no statement"):
        installing.run(needs_statement=True)


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


def test_names_nearest_wheel_where_none_fits(installing: Installing) -> None:
    offer(installing.dist, tag="cp38-cp38-win_amd64")

    with pytest.raises(InstallError) as caught:
        installing.run()

    assert "toy-130 fits" in caught.value.what
    assert "win_amd64" in caught.value.why
    assert f"toy-130 --python {installing.environment} --fallback build" in caught.value.fix


def test_says_that_wheels_are_for_no_stated_cuda(installing: Installing) -> None:
    offer(installing.dist, "3.0")

    with pytest.raises(InstallError) as caught:
        installing.run()

    assert "has 1 file, none of which is a wheel that states CUDA 13.0" in caught.value.why


@pytest.fixture
def nowhere() -> str:
    """The address of an index that doesn't answer."""
    return "http://127.0.0.1:9/simple/"


def test_reports_that_no_index_answers(installing: Installing, nowhere: str) -> None:
    with pytest.raises(DownloadError) as caught:
        installing.run(addresses=(nowhere,))

    assert caught.value.what == "no index could be queried for toy"
    assert f"{nowhere}: 127.0.0.1: " in caught.value.why
    assert "check its address and the network" in caught.value.fix


def test_names_nearest_wheel_and_the_index_that_does_not_answer(
    installing: Installing, nowhere: str
) -> None:
    offer(installing.dist, tag="cp38-cp38-win_amd64")

    with pytest.raises(InstallError) as caught:
        installing.run(addresses=(installing.dist.as_uri(), nowhere))

    assert "toy-130 of the indexes that answered fits" in caught.value.what
    assert f"{nowhere}: 127.0.0.1: " in caught.value.why


def test_builds_if_no_index_answers(installing: Installing, nowhere: str) -> None:
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

    with pytest.raises(InstallError) as caught:
        installing.run(fallback="requirement")

    assert "--fallback build" in caught.value.fix
    assert "replaced" not in caught.value.why


def test_dry_run_reports_the_fallback(installing: Installing) -> None:
    installing.dist.mkdir()

    assert installing.run(fallback="build", is_dry=True).how == "build"
    with pytest.raises(InstallError, match="nothing can be installed"):
        installing.run(fallback="requirement", is_dry=True)
    offer(installing.folder / "links", "1.0", stated=None)
    assert installing.run(fallback="requirement", is_dry=True).what == "toy==1.0"
    assert installing.built == 0


def test_takes_wheel_of_a_known_source_where_own_indexes_have_none(
    installing: Installing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    smoke = Smoke(imports=("causal_conv1d",), call="causal_conv1d.add(1, 2)", expect="3")
    target = toy(name="causal-conv1d", smoke=smoke)
    offer(installing.dist, "1.0+cu120", name="causal_conv1d")
    wheel = offer(installing.folder / "public", name="causal_conv1d")
    site = wheel_site(wheel, project="causal-conv1d")
    site.files["/a/cu130/causal-conv1d/"] = site.files["/simple/causal-conv1d/"]
    with serving(site):
        sources = Sources(names=("astral",), bases={"astral": site.url("/a")})
        with pytest.raises(InstallError):
            installing.run(target)
        done = installing.run(target, sources=sources)
        address = site.url("/a/cu130/")

    assert done.source == f"astral ({address})"
    assert versions(installing.environment, "causal_conv1d") == ["1.0+cu130"]
