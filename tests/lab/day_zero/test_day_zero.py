"""A framework's release tried with packages: real locks, real compiles, an index over HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.build.environments.lock_file import pinned_version
from cuwheel.build.recipe.catalogue import load_catalogue
from cuwheel.build.recipe.recipe import Framework
from tests.support.documents import read_document
from tests.support.lab.day_zeros import add_package, publish_framework
from tests.support.requirements import sandbox_here
from tests.support.servers.http import Site, serving

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Site]:
    """An index with the stand-in framework."""
    with serving(Site()) as site:
        publish_framework(site, tmp_path / "wheels")
        yield site


@pytest.fixture
def run(tmp_path: Path, project: Path, shared_cache: Path, index: Site) -> Run:
    """Run a command of the engine on the test's own recipes."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for name in ("toolchains", "compilers", "downloads", "uv", "canaries"):
        (shared_cache / name).mkdir(exist_ok=True)
        (cache / name).symlink_to(shared_cache / name)

    def start(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ,
            "CUWHEEL_CACHE": str(cache),
            "CUWHEEL_PROJECT": f"{tmp_path / 'own'}{os.pathsep}{project}",
            "UV_INDEX": index.url("/simple"),
            "COLUMNS": "200",
            **variables,
        }
        command = [sys.executable, "-m", "cuwheel", *arguments]
        return subprocess.run(
            command, env=env, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900
        )

    return start


@pytest.mark.e2e
def test_each_verdict_is_from_a_trial(run: Run, tmp_path: Path) -> None:
    own = tmp_path / "own"
    add_package(own, "plain", "")
    add_package(own, "modern", "#define WANTS_MODERN\n")
    add_package(own, "stale", "", more='"tinydep<2", ')
    add_package(own, "dated", "")
    for name, served in (("served", "2.0"), ("stable", "1.5")):
        add_package(own, name, "")
        recipe = own / "recipes" / f"{name}.py"
        pinned = f'version="1.0", serves=("{served}",)), disk=1 << 60,'
        recipe.write_text(recipe.read_text().replace('version="1.0"),', pinned))
    large = own / "sources" / "dated" / "large.cu"
    large.write_text(f'{large.read_text()}static_assert(FRAMEWORK_OLD, "");\n')
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}

    done = run(
        *("day-zero", "tinyfw==2.0", "--work", str(tmp_path / "work")),
        *("--sandbox", sandbox_here(), "--json", str(tmp_path / "day.json")),
        *("--page", str(tmp_path / "day.md")),
    )

    assert done.returncode == 67, done.stdout + done.stderr
    verdicts = _verdicts(tmp_path / "day.json")
    assert {name: verdict["state"] for name, verdict in verdicts.items()} == {
        "plain": "works",
        "modern": "works with changes",
        "stale": "works with changes",
        "dated": "broken",
        "served": "works",
        "stable": "works",
    }, done.stdout
    assert not verdicts["served"]["files"]
    assert len(verdicts["stable"]["files"]) == 2
    assert verdicts["modern"]["changes"] == ["C++20"]
    assert '+    cxx_standard={"tinyfw>=2.0": "20"},' in verdicts["modern"]["diff"]
    assert verdicts["stale"]["changes"] == ["tinydep<2 → tinydep"]
    assert "FRAMEWORK_OLD" in verdicts["dated"]["error"]
    assert "exited with" not in verdicts["dated"]["why"]
    assert [file["part"] for file in verdicts["plain"]["files"]] == ["smallest", "heaviest"]
    assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == before
    assert "| works with changes |" in (tmp_path / "day.md").read_text()


def test_release_for_other_pythons_is_no_verdict(run: Run, tmp_path: Path) -> None:
    add_package(tmp_path / "own", "plain", "")

    done = run("day-zero", "tinyfw==3.0")

    assert done.returncode == 3
    assert "3.9" in done.stderr


@pytest.mark.e2e  # it waits for tries
def test_index_that_is_out_of_reach_is_no_verdict(run: Run, tmp_path: Path, index: Site) -> None:
    add_package(tmp_path / "own", "plain", "")
    index.files.clear()
    index.statuses.extend([503] * 50)

    done = run("day-zero", "tinyfw==2.0")

    assert done.returncode == 30, done.stderr


def test_bump_makes_the_change(run: Run, tmp_path: Path) -> None:
    own = tmp_path / "own"
    add_package(own, "stale", "", more='"tinydep<2", ')
    options = ("--require", "tinydep>=2", "--cxx-standard", "20", "--cooldown", "0")

    done = run("bump", "stale", "--framework", "tinyfw==2.0", *options)

    assert done.returncode == 0, done.stdout + done.stderr
    [entry] = load_catalogue([own])
    assert entry.recipe is not None
    assert entry.recipe.framework == Framework(name="tinyfw", version="2.0")
    assert entry.recipe.cxx_standard == {"tinyfw>=2.0": "20"}
    assert "tinydep>=2" in entry.recipe.requires
    assert pinned_version(own / "envs" / "build" / "stale.lock", "tinydep") == "2.0"


def _verdicts(path: Path) -> dict[str, Any]:
    document = read_document(path.read_text(), "day-zero")
    return {verdict["recipe"]: verdict for verdict in document["verdicts"]}
