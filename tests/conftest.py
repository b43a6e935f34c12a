"""Fixtures that more than one test module uses."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import os
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.fetch import retry
from cuwheel.base.system.files import file_lock, remove_tree
from cuwheel.base.system.output.github import GITHUB_VARIABLE, SUMMARY_VARIABLE
from cuwheel.build.locks.tool_environment import tool_python
from cuwheel.build.toolchains.conda.mirrors import MIRRORS_VARIABLE, Mirrors
from cuwheel.build.toolchains.provide import provide_toolchain
from cuwheel.build.workspace.records import Toolchain
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import toolkit_by_release
from cuwheel.check.pick.known_sources import NONE as NO_SOURCES
from cuwheel.check.pick.known_sources import VARIABLE as SOURCES_VARIABLE
from cuwheel.cli.defaults import CONFIG_VARIABLE
from tests.support.engine import Engine, make_engine
from tests.support.factories import HASTY, make_workspace
from tests.support.golden import Golden
from tests.support.machines.leftovers import end_all_of, end_families, own_children
from tests.support.requirements import required, summarize_skips
from tests.support.toolchains.channel import write_solved_lock, write_source
from tests.support.toolchains.small_toolchain import copy_project
from tests.support.toolchains.toolchain_channel import make_channel, toolchain_specs

_LONG = 1800  # seconds for a test with one of these marks; for others: pyproject.toml
_MARKS_OF_LONG = ("e2e", "nightly")
_BEFORE = pytest.StashKey[frozenset[int]]()  # what ran when a test began
_LEFT = pytest.StashKey[list[str]]()  # what had to be ended behind the tests


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take what `nox -s fuzz` needs, and `--update-golden`."""
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/ again")
    group = parser.getgroup("fuzz")
    group.addoption("--fuzz-minutes", type=float, default=5.0, help="for all readers together")
    group.addoption("--fuzz-seed", type=int, default=1, help="of the changes; another finds more")


def pytest_configure(config: pytest.Config) -> None:
    """Check `CUWHEEL_REQUIRE`; give the tests signals as a terminal's program has them.

    `nohup` and a shell's `&` start programs that ignore these, and all that tests start would, too.
    What is printed for GitHub Actions is printed where a test says that it runs there.
    """
    required(os.environ)
    for name in (GITHUB_VARIABLE, SUMMARY_VARIABLE):
        os.environ.pop(name, None)
    os.environ[SOURCES_VARIABLE] = NO_SOURCES  # no test queries a public place
    os.environ[CONFIG_VARIABLE] = ""  # no test takes defaults of this user's files
    config.stash[_LEFT] = []
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Give all processes a list of trusted projects that isn't the user's."""
    if not hasattr(session.config, "workerinput"):
        folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        os.environ["XDG_STATE_HOME"] = str(folder / "state")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Compile another part of all tests first in each process; then no process compiles them all.

    Nothing that collecting makes is garbage, neither then nor later.
    """
    gc.disable()
    worker = getattr(session.config, "workerinput", None)
    if worker and session.config.args == session.config.getini("testpaths"):
        root = session.config.rootpath
        files = [path.relative_to(root) for path in sorted(root.glob("tests/**/test_*.py"))]
        first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        for path in (*files[first:], *files[:first]):
            with contextlib.suppress(Exception):  # which collecting reports
                importlib.import_module(".".join(path.with_suffix("").parts))
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs 2 GB of CUDA as long; give what is long more time."""
    for item in items:
        if "whole_cuda_home" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.e2e)
        if any(map(item.get_closest_marker, _MARKS_OF_LONG)):
            item.add_marker(pytest.mark.timeout(_LONG))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[_BEFORE] = own_children()  # what a fixture started ends with it
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """End what the test itself started, so that it's no other test's burden."""
    try:
        return (yield)
    finally:
        before = item.stash.get(_BEFORE, None)
        if before is not None:
            end_families(own_children() - before)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End what still works in the folders of the tests: a daemon, or a killed program's child."""
    if hasattr(session.config, "workerinput"):
        return  # the process that started this one does it
    folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    session.config.stash[_LEFT] = end_all_of(folder)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for command in config.stash[_LEFT]:
        terminalreporter.write_line(f"ended what a test left: {command}")
    # `longrepr` of a skipped test: path, line, reason.
    skipped = [report.longrepr for report in terminalreporter.getreports("skipped")]
    if line := summarize_skips(where[2] for where in skipped if isinstance(where, tuple)):
        terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def _hasty_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "RETRY_POLICY", HASTY)


@pytest.fixture(scope="session")
def golden(pytestconfig: pytest.Config) -> Golden:
    """Compare what a command prints with a file."""
    return Golden(updates=pytestconfig.getoption("--update-golden"))


@pytest.fixture(scope="session")
def shared_cache() -> Path:
    """The user's own cache: what was downloaded once serves every later test run."""
    return Caller(os.environ).cache


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run of the tests share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def project(run_folder: Path) -> Path:
    """The project folder of the tiny packages, with the small toolchain."""
    folder = run_folder / "project"
    with file_lock(run_folder / "project.lock"):
        return folder if folder.exists() else copy_project(folder)


@pytest.fixture(scope="session")
def cuda_home(project: Path, shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiler and the runtime of CUDA 13.0."""
    workspace = make_workspace(tmp_path_factory.mktemp("toolchain"), cache=shared_cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUWHEEL_PROJECT", str(project))
        return provide_toolchain(toolkit_by_release("13.0"), "pypi", workspace).home


@pytest.fixture(scope="session")
def whole_cuda_home(shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of CUDA 13.0 that recipes link: 2 GB, so what uses it gets the mark `e2e`."""
    workspace = make_workspace(tmp_path_factory.mktemp("whole"), cache=shared_cache)
    return provide_toolchain(toolkit_by_release("13.0"), "pypi", workspace).home


@pytest.fixture(scope="session")
def conda_channel(
    shared_cache: Path, cuda_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder that is a conda channel with the small toolchain; the cache keeps it."""
    workspace = make_workspace(tmp_path_factory.mktemp("channel"), cache=shared_cache)
    return make_channel(workspace, cuda_home)


@pytest.fixture(scope="session")
def whole_conda_channel(
    shared_cache: Path, whole_cuda_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The same with all libraries that packages of the tests link."""
    workspace = make_workspace(tmp_path_factory.mktemp("whole-channel"), cache=shared_cache)
    return make_channel(workspace, whole_cuda_home)


@pytest.fixture(scope="session")
def conda_lock(shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the environment that conda-lock is in."""
    return tool_python(
        "conda-lock", make_workspace(tmp_path_factory.mktemp("lock"), cache=shared_cache)
    )


@pytest.fixture(scope="session")
def sigstore_environment(shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have the environment of Sigstore's library made before a test changes what is reached."""
    tool_python("sigstore", make_workspace(tmp_path_factory.mktemp("sigstore"), cache=shared_cache))


@pytest.fixture(scope="session")
def conda_project(
    conda_channel: Path, shared_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A project folder with a conda lock for CUDA 13.0, solved from the channel."""
    return _make_project(conda_channel, shared_cache, tmp_path_factory)


@pytest.fixture(scope="session")
def conda_toolchain(
    conda_channel: Path,
    conda_project: Path,
    shared_cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Toolchain:
    """The toolchain of that lock, installed into the shared cache."""
    return _install_conda(conda_channel, conda_project, shared_cache, tmp_path_factory)


@pytest.fixture(scope="session")
def whole_conda_toolchain(
    whole_conda_channel: Path, shared_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Toolchain:
    """The same of the channel with all libraries."""
    project = _make_project(whole_conda_channel, shared_cache, tmp_path_factory)
    return _install_conda(whole_conda_channel, project, shared_cache, tmp_path_factory)


def _make_project(channel: Path, cache: Path, temporary: pytest.TempPathFactory) -> Path:
    folder = temporary.mktemp("conda-project")
    source = write_source(folder / "envs" / "cuda130", *toolchain_specs(channel))
    write_solved_lock(source, Mirrors.of({MIRRORS_VARIABLE: channel.as_uri()}), cache)
    return folder


def _install_conda(
    channel: Path, project: Path, cache: Path, temporary: pytest.TempPathFactory
) -> Toolchain:
    workspace = make_workspace(temporary.mktemp("conda"), cache=cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MIRRORS_VARIABLE, channel.as_uri())
        patch.setenv("CUWHEEL_PROJECT", str(project))
        return provide_toolchain(toolkit_by_release("13.0"), "conda", workspace)


@pytest.fixture(scope="module")
def module_path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A folder that the tests of one module share; kept only when one of them fails."""
    before = request.session.testsfailed
    folder = tmp_path_factory.mktemp(request.path.stem)
    yield folder
    if request.session.testsfailed == before:
        remove_tree(folder)


@pytest.fixture
def lean_workspace(tmp_path: Path, shared_cache: Path) -> Workspace:
    """A workspace with a cache of the test's own, but the downloads of the shared one."""
    made = make_workspace(tmp_path)
    made.cache.mkdir()
    (shared_cache / "uv").mkdir(parents=True, exist_ok=True)
    (made.cache / "uv").symlink_to(shared_cache / "uv")
    return made


@pytest.fixture
def engine(tmp_path: Path, project: Path, shared_cache: Path) -> Engine:
    """The engine as nox starts it, with work and dist folders of this test."""
    return make_engine(tmp_path, project, shared_cache)


@pytest.fixture(scope="session")
def built(run_folder: Path, project: Path, shared_cache: Path) -> Callable[[str], Engine]:
    """Give an engine that has built the tiny package of this name, once for all processes.

    Its folders are for reading; who runs it again takes `copied`.
    """

    def build(name: str) -> Engine:
        folder = run_folder / name
        engine = make_engine(folder, project, shared_cache)
        with file_lock(run_folder / f"{name}.lock"):
            if not (folder / "built").exists():
                done = engine.build(name, "--keep-work")
                assert done.status == 0, done.output
                (folder / "built").touch()
        return engine

    return build


@pytest.fixture
def copied(built: Callable[[str], Engine], tmp_path: Path) -> Callable[[str], Engine]:
    """Give an engine with what `built` left in `dist`, for this test alone."""

    def copy(name: str) -> Engine:
        dist = shutil.copytree(built(name).dist, tmp_path / "dist", symlinks=True)
        return dataclasses.replace(built(name), work=tmp_path / "work", dist=dist)

    return copy
