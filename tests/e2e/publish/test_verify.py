"""The sessions verify and profile on a tiny package: real builds, all of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import NotReproducibleError
from cuwheel.base.paths import ROOT
from tests.support.documents import read_document
from tests.support.engine import PACKAGES, Engine, Outcome

pytestmark = pytest.mark.e2e


@dataclass(frozen=True, kw_only=True)
class Verifier:
    """Runs the sessions on one source."""

    engine: Engine
    source: Path

    def run(self, command: str, *options: str) -> Outcome:
        done = self._start(command, *options, errors=subprocess.STDOUT)
        return Outcome(status=done.returncode, output=done.stdout)

    def data(self, command: str, *options: str) -> dict[str, Any]:
        """What it prints with `--json`, which has to be one line and nothing else."""
        done = self._start(command, *options, "--json", errors=subprocess.PIPE)
        assert done.stdout.count("\n") == 1, done.stdout + done.stderr
        schema = "rebuild" if "--against" in options else command
        return {"status": done.returncode, **read_document(done.stdout, schema)}

    def _start(self, command: str, *options: str, errors: int) -> subprocess.CompletedProcess[str]:
        words = ["--source", str(self.source), "--work", str(self.engine.work), *options]
        if "--against" not in options:  # its own cache would get a pinned compiler each time
            words += ["--host-compiler", "system"]
        return subprocess.run(
            [sys.executable, "-m", "cuwheel", command, "tiny-capi-130", *words],
            env=self.engine.environment(),
            cwd=ROOT,
            check=False,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )


@pytest.fixture
def verifier(engine: Engine, tmp_path: Path) -> Verifier:
    source = tmp_path / "source"
    shutil.copytree(PACKAGES / "tiny_capi", source)
    return Verifier(engine=engine, source=source)


def change(file: Path, text: str, becomes: str) -> None:
    content = file.read_text()
    assert content.count(text) == 1
    file.write_text(content.replace(text, becomes))


def test_finds_the_same_bytes(verifier: Verifier) -> None:
    done = verifier.data("verify")

    assert (done["status"], done["state"]) == (0, "the same bytes")
    assert "2 of 2 compiles were in it" in done["builds"][-1]["cache"]
    [wheel] = verifier.engine.work.glob("verify/*/usual/dist/*.whl")
    equal = verifier.data("verify", "--against", str(wheel))
    assert (equal["status"], equal["state"]) == (0, "the same bytes")
    assert equal["build"]["sha256"] == equal["against"]["sha256"]


@pytest.mark.nightly
def test_names_a_time_stamp_in_a_kernel(verifier: Verifier) -> None:
    """The package asks the clock itself, so that SOURCE_DATE_EPOCH does nothing."""
    change(
        verifier.source / "setup.py",
        'nvcc = [CUDA_HOME / "bin" / "nvcc", "-O2",',
        'nvcc = [CUDA_HOME / "bin" / "nvcc", f\'-DAT="{time.ctime()}"\', "-O2",',
    )
    change(verifier.source / "setup.py", "import shlex\n", "import shlex\nimport time\n")
    change(
        verifier.source / "src" / "add.cu", '"%s:%d: negative count', 'AT " %s:%d: negative count'
    )

    done = verifier.run("verify")

    assert done.status == NotReproducibleError.exit_code, done.output
    assert "sm_90" in done.output
    assert "the time of the build is in the file" in done.output
    [kept] = verifier.engine.work.glob("verify/*/other/comparison.json")
    assert "build-time" in read_document(kept.read_text(), "comparison")["causes"]


@pytest.mark.nightly
def test_names_other_level_of_optimisation_for_one_arch(verifier: Verifier) -> None:
    done = verifier.run("verify", "--arch", "80", "--arch", "90")
    assert done.status == 0, done.output
    [wheel] = verifier.engine.work.glob("verify/*/usual/dist/*.whl")
    setup = verifier.source / "setup.py"
    change(setup, '"-Xcompiler", "-fPIC", *GENCODE]', '"-Xcompiler", "-fPIC", *GENCODE, LEVEL]')
    change(
        setup,
        "GENCODE = shlex",
        'LEVEL = "-Xptxas=-O1"\nGENCODE = shlex',
    )

    done = verifier.run("verify", "--against", str(wheel))

    assert done.status == NotReproducibleError.exit_code, done.output
    assert "add_one" in done.output
    assert "recorded other options" in done.output
    assert "another material: source" in done.output


def test_shows_where_the_time_went(verifier: Verifier) -> None:
    dist = ("--dist", str(verifier.engine.dist))

    done = verifier.run("profile", *dist)

    assert done.status == 0, done.output
    made = sorted(verifier.engine.work.glob("*/profile/*"))
    assert [path.name for path in made] == ["profile.svg", "profile.trace.json"]
    assert [path for path in made if str(path) not in done.output] == []
    assert all("add.cu" in path.read_text() for path in made)
    assert "add.cu" in done.output
    assert verifier.engine.wheels() == []
