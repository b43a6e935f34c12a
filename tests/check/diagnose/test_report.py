"""The printed report of a diagnosis, and the entries of its verdicts."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
import rich.console

from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.base.system.output.documents import as_line
from cuwheel.check.cuda.installed_toolkits import InstalledToolkit
from cuwheel.check.diagnose import report
from cuwheel.check.diagnose.document import (
    DiagnosedEnvironment,
    DiagnosedMachine,
    DiagnoseDocument,
    DiagnosedTarget,
)
from cuwheel.check.diagnose.facts.gpu_packages import DiagnosedPackage
from cuwheel.check.diagnose.facts.imports import FrameworkFacts
from cuwheel.check.diagnose.facts.machine import Driver, DriverGpu
from cuwheel.check.diagnose.report import annotate_verdicts, print_report
from cuwheel.check.diagnose.toolkits import Installations
from cuwheel.check.diagnose.verdict import (
    LEVELS,
    OWN_ENTRIES,
    Diagnosis,
    FailsOn,
    Level,
    broken,
    exit_code_of,
    warns,
    works,
    worst_level,
)
from tests.check.diagnose.samples import make_host
from tests.support.documents import read_document
from tests.support.golden import Golden


def make_report(*verdicts: Diagnosis) -> DiagnoseDocument:
    """A machine with eight GPUs and two toolkits; an environment with torch and one package."""
    gpus = tuple(DriverGpu(index=n, name="A", capability="90", memory=1 << 36) for n in range(8))
    paths = (Path("/usr/local/cuda/bin/nvcc"), Path("/opt/cuda/bin/nvcc"))
    toolkits = (
        InstalledToolkit(
            home=paths[0].parents[1],
            kind="nvidia",
            path=paths[0],
            found=("PATH", "CUDA_HOME"),
            release="13.0",
            version="13.0.88",
        ),
        InstalledToolkit(
            home=paths[1].parents[1],
            kind="conda",
            path=paths[1],
            found=("CONDA_PREFIX",),
            fault="it ended with status 3",
            lacks=("headers",),
        ),
    )
    package = DiagnosedPackage(
        name="ext",
        version="1.0",
        archs=("90",),
        ptx_archs=(),
        suppliers={"libcudart.so.13": "nvidia-cuda-runtime 13.0.96", "libx.so": ""},
        other_libraries=2,
        libraries=(),
    )
    return DiagnoseDocument(
        verdict=worst_level(verdicts),
        exit_code=0,
        machine=DiagnosedMachine(
            surroundings=make_host(container="Docker"),
            driver=Driver(asked="NVML", version="580.65.06", newest_cuda="13.0", gpus=gpus),
            installations=Installations(toolkits=toolkits),
            settings={"CUDA_HOME": "/usr/local/cuda"},
        ),
        environment=DiagnosedEnvironment(
            python="/env/bin/python",
            chosen_by="$VIRTUAL_ENV",
            version="3.12.1",
            prefix="/env",
            is_conda=False,
            frameworks=(FrameworkFacts(name="torch", version="2.11.0", cuda="13.0"),),
            leftovers=(),
            nvidia_wheels={"nvidia-cublas": "13.1", "nvidia-cublas-cu12": "12.8"},
        ),
        packages=(package,) * 13,
        chosen_libraries={},
        targets=(
            DiagnosedTarget(name="a-130", fits=True, runs=(), builds=()),
            DiagnosedTarget(name="b-130", fits=False, runs=("old",), builds=("no",)),
        ),
        verdicts=verdicts,
    )


def printed(shown: DiagnoseDocument, width: int = 0) -> str:
    """Print as in a log; with a width, as on a terminal of so many columns."""
    stream = io.StringIO()
    terminal = rich.console.Console(
        file=stream, width=width or 200, force_terminal=bool(width), color_system=None
    )
    print_report(shown, terminal, Console())
    return stream.getvalue()


def test_prints_facts_then_bad_news_last(golden: Golden) -> None:
    bad = broken("no-cuda-device", "it is bad", "a cause", "a fix", "rm -r x && run it")

    golden.check("diagnose/report.txt", printed(make_report(works("all is well"), bad)))


def test_wraps_for_terminal() -> None:
    long = warns("no-cuda-device", "word " * 30, "cause " * 30, "fix")

    lines = printed(make_report(long), width=60).splitlines()

    verdicts = lines[lines.index("verdicts") :]
    assert max(map(len, verdicts)) <= 60


def test_document_has_verdicts() -> None:
    shown = make_report(warns("diagnose-versions", "a", "b", "c"))

    document = read_document(as_line(shown), "diagnose")

    texts = {"what": "a", "cause": "b", "fix": "c", "command": ""}
    verdict = {"level": "warning", "anchor": "diagnose-versions", **texts}
    assert (document["verdict"], document["verdicts"]) == ("warning", [verdict])


@pytest.mark.parametrize(
    ("fails_on", "codes"),
    [
        ("broken", {"ok": 0, "note": 0, "warning": 0, "broken": 2}),
        ("warning", {"ok": 0, "note": 0, "warning": 1, "broken": 2}),
        ("never", {"ok": 0, "note": 0, "warning": 0, "broken": 0}),
    ],
)
def test_fails_from_the_given_level(fails_on: FailsOn, codes: dict[Level, int]) -> None:
    assert {level: exit_code_of(level, fails_on) for level in LEVELS} == codes
    assert worst_level(()) == "ok"


def test_anchors_lead_to_entries() -> None:
    page = (ROOT / "TROUBLESHOOTING.md").read_text()
    room = Path(report.__file__).parent
    modules = (*room.glob("*.py"), *room.glob("rules/*.py"))
    quoted = {
        text
        for path in modules
        for text in re.findall(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"', path.read_text())
    }

    assert set(OWN_ENTRIES) < quoted
    assert {name for name in quoted if f'<a id="{name}"></a>' not in page} == set()


def test_annotates_what_is_wrong_in_a_workflow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    wrong = broken("driver", "the driver is too old", "a\n::error::b", "install a newer one")

    annotate_verdicts(make_report(works("torch works"), wrong), Console())

    line, *others = capsys.readouterr().err.splitlines()
    assert line.startswith("::error title=the driver is too old::because: a%0A::error::b%0Ato fix:")
    assert not others
    summary = (tmp_path / "summary.md").read_text()
    assert "| broken | the driver is too old |" in summary
    assert "torch works" not in summary
