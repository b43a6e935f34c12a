"""Compare wheels with themselves, and record each answer.

Run by hand from the checkout on a machine with an idle GPU, nvcc's tools and PyTorch:

    python3 tests/gpu/equal_wheels.py --wheels DIR --work DIR --times 3

DIR has wheels of recipes with a probe. Each is installed into a folder of its own; what the probe
times is compared, without the grid: that has no times. A record that exists isn't made again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from cuwheel.base.system.console import Console  # noqa: E402
from cuwheel.base.system.output.documents import as_data  # noqa: E402
from cuwheel.build.sandbox.confinement import Confinement  # noqa: E402
from cuwheel.lab.perf.measured_wheel import link_neighbours  # noqa: E402
from cuwheel.lab.perf.measurement import measure  # noqa: E402
from cuwheel.lab.perf.probe_process import PerfEnvironment, PerfRequest  # noqa: E402
from tests.gpu.broken_variants import PROBE, note  # noqa: E402


def install(wheel: Path, work: Path) -> Path:
    """Unpack a wheel, link the libraries that its rpaths name, and return the folder."""
    site = work / "sites" / wheel.stem
    if not site.exists():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
        link_neighbours(site, Path(sys.executable), os.environ)
    return site


def place(site: Path, folder: Path) -> PerfEnvironment:
    """Return this interpreter, with the installed wheel first."""
    own = Confinement(sandbox="none", environment=Path(sys.prefix), base=None, folder=folder)
    return PerfEnvironment(
        python=Path(sys.executable),
        folder=site,
        name=site.name,
        confinement=own,
        environ=os.environ,
    )


def compare(wheel: Path, work: Path, number: int) -> dict[str, Any]:
    """Compare a wheel with itself."""
    recipe = wheel.name.partition("-")[0]
    folder = work / "runs" / f"{recipe}.{number}"
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / "probe.py"
    given = ROOT / "recipes" / "perf" / f"{recipe}.py"
    probe.write_text(PROBE.format(probe=str(given), is_timed=True))
    site = install(wheel, work)
    new, old = (place(site, folder / name) for name in ("new", "old"))
    request = PerfRequest(
        recipe=recipe,
        probe=probe,
        new=new,
        old=old,
        log=folder / "perf.log",
        wheel=wheel.name,
        against=wheel.name,
        is_quick=True,
    )
    return dict(as_data(measure(request, Console())))


def described(run: dict[str, Any]) -> str:
    """Return the answer, and each case's."""
    cases = []
    for case in run["cases"]:
        if made := case["comparison"]:
            answer = f"{made['answer']} {made['ratio']:.4f} ±{made['noise']:.4f}"
            cases.append(f"{case['name']}: {answer} x{made['repeats']}")
    return f"{run['answer']} {run['seconds']} {'; '.join(cases)}"


def main() -> int:
    """Compare all wheels, once after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=lambda text: Path(text).absolute(), required=True)
    parser.add_argument("--work", type=lambda text: Path(text).absolute(), required=True)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args()
    end = time.monotonic() + given.seconds
    for number in range(given.times):
        for wheel in sorted(given.wheels.glob("*.whl")):
            record = given.work / f"{wheel.name.partition('-')[0]}.{number}.json"
            if record.exists() or time.monotonic() > end:
                continue
            try:
                found = compare(wheel, given.work, number)
            except Exception as problem:  # noqa: BLE001 - recorded, and the others go on
                found = {"error": f"{type(problem).__name__}: {problem}"}
            record.write_text(json.dumps(found))
            note(f"{wheel.name} {found.get('error') or described(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
