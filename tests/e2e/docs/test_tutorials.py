"""The commands of README and of each tutorial, run as their reader types them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.cli.reference.addresses import REPOSITORY
from tests.support.machines.clones import commit_all, copy_checkout, git
from tests.support.requirements import require
from tests.support.walkthrough import Step, plain_environment, steps_of, walk_through

pytestmark = pytest.mark.e2e

TUTORIALS = ROOT / "docs" / "tutorials"
LOGS = ROOT / "tests" / "logs" / "raw"
_VENV = ("python3 -m venv env", ". env/bin/activate")  # README's `pip install` writes there
# Commands of README that are not run by `test_readme`, with the reason.
_RUN_ELSEWHERE = {
    "nox -s tests": "a job of .github/workflows/ci.yml runs it",
    "nox -s lint": "a job of .github/workflows/ci.yml runs it",
    "nox -s tests-e2e": "it would run this test again; a job of .github/workflows/ci.yml runs it",
}
_INSTALL = (
    f"git clone {REPOSITORY}",
    "python3 -m venv cuwheel-env",
    ". cuwheel-env/bin/activate",
    "pip install ./cuwheel",
)


@pytest.fixture
def reader(tmp_path: Path, shared_cache: Path) -> Callable[..., dict[str, str]]:
    """Variables of somebody with an empty home."""
    (tmp_path / "home").mkdir()

    def variables(**more: str) -> dict[str, str]:
        found = plain_environment(tmp_path / "home") | {"CUWHEEL_CACHE": str(shared_cache)} | more
        python = Path(sys.executable).resolve().parent  # `python3` is that of this test
        return found | {"PATH": f"{python}{os.pathsep}{found['PATH']}"}

    return variables


def page(name: str) -> tuple[Step, ...]:
    return steps_of((TUTORIALS / f"{name}.md").read_text())


def test_readme(tmp_path: Path, reader: Callable[..., dict[str, str]]) -> None:
    found = steps_of((ROOT / "README.md").read_text())
    log = LOGS / "torch-abi-mismatch--import.log"
    cloned = (*_VENV, f"git clone {REPOSITORY}", "cd cuwheel")
    before = [Step(section="", command=command) for command in cloned]
    brought = Step(section="", command=f"cp {log} build.log")
    clone = [one for one in found if one.section == "Start"]
    later = [one for one in found if one not in clone and one.command not in _RUN_ELSEWHERE]

    walk_through([*before, *clone, brought, *later], tmp_path, reader(**_cloning(tmp_path)))


def test_what_readme_leaves_to_others_is_run_by_them() -> None:
    commands = {one.command for one in steps_of((ROOT / "README.md").read_text())}
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()

    assert commands.issuperset(_RUN_ELSEWHERE)
    assert [
        one
        for one in _RUN_ELSEWHERE
        if not re.search(rf"(run:|^) +{one}( |$)", workflow, re.MULTILINE)
    ] == []


@pytest.mark.nightly
def test_first_wheel(tmp_path: Path, reader: Callable[..., dict[str, str]]) -> None:
    walk_through(page("first-wheel"), tmp_path, reader(**_cloning(tmp_path)))


@pytest.mark.parametrize(
    "name", [pytest.param("own-package", marks=pytest.mark.nightly), "audit-in-ci"]
)
def test_with_cuwheel_installed(
    name: str, tmp_path: Path, reader: Callable[..., dict[str, str]]
) -> None:
    installed = [Step(section="", command=command) for command in _INSTALL]

    walk_through([*installed, *page(name)], tmp_path, reader(**_cloning(tmp_path)))


@pytest.mark.nightly
def test_offline_cluster(tmp_path: Path, reader: Callable[..., dict[str, str]]) -> None:
    """The cluster is another home without a network; the checkout is a clone of this one."""
    require("namespaces", "a build where no network is")
    before = [one for one in page("offline-cluster") if not one.section.startswith("3.")]
    after = [one for one in page("offline-cluster") if one.section.startswith("3.")]
    online, cluster = tmp_path / "online", tmp_path / "cluster"
    online.mkdir()
    (cluster / "home").mkdir(parents=True)

    walk_through(before, online, reader(**_cloning(tmp_path)))
    (online / "mirror").rename(cluster / "mirror")
    variables = reader(CUWHEEL_CACHE=str(cluster / "cache"), HOME=str(cluster / "home"))
    walk_through(after, cluster, variables, "unshare", "--map-root-user", "--net")


def _cloning(folder: Path) -> dict[str, str]:
    """Variables with which `git clone` of the published address gives this checkout."""
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{_snapshot(folder)}.insteadOf",
        "GIT_CONFIG_VALUE_0": REPOSITORY,
    }


def _snapshot(folder: Path) -> Path:
    """A repository with the files of this checkout."""
    repository = copy_checkout(folder / "repository")
    git(repository, "init", "--quiet")
    commit_all(repository)
    return repository
