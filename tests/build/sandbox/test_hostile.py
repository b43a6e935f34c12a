"""A hostile program in both kinds of sandbox, as root and as an ordinary user; and in none."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from cuwheel.base.paths import script
from cuwheel.base.system.process import run
from cuwheel.build.sandbox.backends import choose_sandbox
from cuwheel.build.sandbox.confinement import Confinement
from tests.build.sandbox.test_backends import PARTS, processes_with
from tests.support.machines.ordinary_user import let_in, ordinary_user
from tests.support.machines.pythons import python_in_usr
from tests.support.packages.hostile_package import Prey, preyed_on, results
from tests.support.requirements import require

_NAMESPACES = script("build/sandbox/namespaces")


@pytest.fixture
def prey(tmp_path: Path) -> Iterator[Prey]:
    (tmp_path / "memory").mkdir()
    with preyed_on(tmp_path, tmp_path / "memory") as prey:
        yield prey


def attack(prey: Prey, kind: str, user: int) -> list[str]:
    """Run the attack; what of it went well."""
    python = python_in_usr("what a hostile program reaches in a sandbox").path
    folder, environment = prey.folder / "own", prey.folder / "environment"
    for path in (folder, environment, folder / "tmp"):
        path.mkdir()
        os.chown(path, user, -1)
    (environment / "attack.py").write_text(f"{prey.module()}\nattack()\n")
    shutil.copytree(_NAMESPACES, prey.folder / "namespaces")
    let_in(environment)
    confinement = Confinement(sandbox=kind, environment=environment, base=python, folder=folder)
    words = [
        # Where root's Python and this repository are, others may not look.
        word.replace(str(_NAMESPACES), str(prey.folder / "namespaces")).replace(
            sys.executable, str(python)
        )
        for word in confinement.command([python, "-I", environment / "attack.py"])
    ]
    becoming = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
    ordinary = becoming if user != os.getuid() else ()
    done = run([*ordinary, *words], env={"PATH": "/usr/bin:/bin"}, cwd=folder, check=False)
    [result] = results(done.output)
    return list(result["done"])


@pytest.mark.parametrize("kind", ["bubblewrap", "unshare"])
@pytest.mark.parametrize("user", ["caller", "ordinary"])
def test_reaches_nothing_in_a_sandbox(prey: Prey, kind: str, user: str) -> None:
    require(PARTS[kind], "that a hostile program reaches nothing of the machine")

    done = attack(prey, choose_sandbox(kind), os.getuid() if user == "caller" else ordinary_user())

    assert done == []
    assert list(prey.host.iterdir()) == []
    assert list((prey.folder / "memory").iterdir()) == []
    assert processes_with(prey.mark) == []


def test_reaches_all_of_it_without(prey: Prey) -> None:
    """Else the test above would prove nothing."""
    done = attack(
        replace(prey, facts={**prey.facts, "temporary": str(prey.folder)}), "none", os.getuid()
    )

    assert {
        *("read_a_secret_file", "list_the_home_folder", "read_other_environments"),
        *("signal_another_process", "connect_by_ipv4", "connect_to_an_abstract_socket"),
        *("connect_to_a_socket_file", "write_to_the_host"),
    } <= set(done)
    latest = time.monotonic() + 20  # the one that is left may not run its program yet
    while not (rest := processes_with(prey.mark, seconds=0)):
        assert time.monotonic() < latest
        time.sleep(0.02)
    assert len(rest) == 1
    psutil.Process(rest[0]).kill()
