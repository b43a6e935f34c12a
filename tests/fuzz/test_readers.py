"""Changed files crash no reader: nothing but declared errors, bounded time and memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cuwheel.base import limits
from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from cuwheel.base.system.process import Finished
from tests.fuzz.readers import READERS
from tests.fuzz.samples import write_samples
from tests.support.requirements import require

pytestmark = pytest.mark.nightly

TIME = 20  # seconds for one input, on a loaded machine; the largest sample takes milliseconds
SPARE = 120.0  # seconds beside, to start and to read the samples
MEMORY = 512 << 20  # bytes that the process, its corpus and its instruments take beside


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory, cuda_home: Path) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    write_samples(folder, cuda_home)
    return folder


def fuzz(reader: str, samples: Path, tmp_path: Path, seconds: float, seed: int) -> Finished:
    """Feed a reader for some time; in the folder lies what crashed it."""
    require("atheris", "that changed files crash no reader")
    options = (
        f"-max_total_time={seconds:.0f}",
        f"-seed={seed}",
        f"-timeout={TIME}",
        f"-rss_limit_mb={(limits.MEMORY + MEMORY) >> 20}",
        f"-artifact_prefix={tmp_path}/",
        "-print_final_stats=1",
    )
    grown = tmp_path / "corpus"
    grown.mkdir()
    return process.run(
        [sys.executable, "-m", "tests.fuzz.worker", reader, *options, grown, samples / reader],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)},
        cwd=ROOT,
        check=False,
        timeout=seconds + SPARE,
    )


@pytest.mark.parametrize("reader", READERS)
def test_changed_files_crash_no_reader(
    reader: str, samples: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    minutes, seed = (request.config.getoption(f"--fuzz-{name}") for name in ("minutes", "seed"))

    done = fuzz(reader, samples, tmp_path, 60 * minutes / len(READERS), seed)

    crashes = [*tmp_path.glob("crash-*"), *tmp_path.glob("oom-*"), *tmp_path.glob("timeout-*")]
    assert done.status == 0, (crashes, done.output[-6000:])


@pytest.mark.parametrize(
    ("reader", "artefact"), [("raises", "crash-*"), ("grows", "oom-*"), ("hangs", "timeout-*")]
)
def test_finds_planted_crash(reader: str, artefact: str, samples: Path, tmp_path: Path) -> None:
    (samples / reader).mkdir()
    (samples / reader / "0").write_text("[1]")

    done = fuzz(reader, samples, tmp_path, seconds=60, seed=1)

    assert done.status != 0
    assert list(tmp_path.glob(artefact))
