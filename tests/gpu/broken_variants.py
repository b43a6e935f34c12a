"""Build deliberately broken variants of three packages, and record what they do and what perf says.

Run by hand from the checkout on a machine with a GPU, nvcc, g++ and PyTorch, in this order, each
with the same --work; what a stage has recorded isn't run again:

    python3 tests/gpu/broken_variants.py build --causal-conv1d FOLDER --work DIR
    python3 tests/gpu/broken_variants.py truth --work DIR
    python3 tests/gpu/broken_variants.py perf --work DIR
    python3 tests/gpu/broken_variants.py against --work DIR
    python3 tests/gpu/broken_variants.py sanitize --work DIR
    python3 tests/gpu/broken_variants.py alone --work DIR
    python3 tests/gpu/broken_variants.py table --work DIR --out DIR

FOLDER is the patched source of causal-conv1d, `build causal-conv1d-130 --until patch`; a library
that DIR has already isn't built. `perf` runs several variants at once and times nothing; `against`
and `sanitize` try what it passed. `alone` has those that only times or memory show, minutes each,
one at a time on each GPU. `--seconds` starts no more after that time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import tomllib  # type: ignore[import-not-found,unused-ignore] # the machine's Python has it

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from cuwheel.base.system.console import Console  # noqa: E402
from cuwheel.base.system.output.documents import as_data  # noqa: E402
from cuwheel.build.sandbox.confinement import Confinement  # noqa: E402
from cuwheel.lab.perf.kernels import kernels_of  # noqa: E402
from cuwheel.lab.perf.measurement import measure  # noqa: E402
from cuwheel.lab.perf.probe_process import PerfEnvironment, PerfRequest, start_probe  # noqa: E402
from cuwheel.lab.perf.records import PerfRun  # noqa: E402
from cuwheel.lab.perf.sanitizer import (  # noqa: E402
    TOOLS,
    check_sanitizer,
    run_tool,
    small_cases,
)

HERE = Path(__file__).parent / "variants"
GOOD = "good"
WORSE = 3.0  # times the good build's error: this variant is wrong
PROBE = """
import dataclasses, runpy
probe = runpy.run_path({probe!r}, run_name="probe")
globals().update({{name: value for name, value in probe.items() if name.isupper()}})

def cases():
    quick = [case for case in probe["cases"]() if case.is_quick]
    if {is_timed}:
        return [dataclasses.replace(case, rival=None) for case in quick if not case.is_grid]
    small = [case for case in quick if case.memory <= 1 << 29]
    return [dataclasses.replace(case, is_timed=False, rival=None) for case in small]
"""
CUDA_FLAGS = (
    *("-O3", "-std=c++17", "-w", "-Xcompiler", "-fPIC"),
    *("-gencode", "arch=compute_90,code=sm_90"),
)
TORCH_CUDA_FLAGS = (
    *("--expt-relaxed-constexpr", "--expt-extended-lambda", "--use_fast_math"),
    *("-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_HALF_CONVERSIONS__"),
    *("-U__CUDA_NO_BFLOAT16_OPERATORS__", "-U__CUDA_NO_BFLOAT16_CONVERSIONS__"),
    *("-U__CUDA_NO_BFLOAT162_OPERATORS__", "-U__CUDA_NO_BFLOAT162_CONVERSIONS__"),
)


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package of which variants are built.

    Attributes:
        name: of its file of variants, and of its source's folder.
        module: that is imported.
        probe: file.
        python: its Python files' folder in the source.
        library: file name, in the site's folder or the package's.
        sources: that are compiled and linked.
    """

    name: str
    module: str
    probe: Path
    python: str
    library: str
    sources: tuple[str, ...]

    @property
    def variants(self) -> dict[str, dict[str, Any]]:
        """Each variant by the name of its folder; the good build is the first."""
        listed = tomllib.loads((HERE / f"{self.name}.toml").read_text())["variant"]
        return {GOOD: {}} | {folder_of(variant["name"]): variant for variant in listed}


PACKAGES = (
    Package(
        name="causal_conv1d",
        module="causal_conv1d",
        probe=ROOT / "recipes" / "perf" / "causal_conv1d.py",
        python="causal_conv1d",
        library=f"causal_conv1d_cuda{sysconfig.get_config_var('EXT_SUFFIX')}",
        sources=(
            "csrc/causal_conv1d.cpp",
            "csrc/causal_conv1d_fwd.cu",
            "csrc/causal_conv1d_bwd.cu",
            "csrc/causal_conv1d_update.cu",
        ),
    ),
    Package(
        name="tiny_skbuild",
        module="tiny_skbuild",
        probe=HERE / "tiny_skbuild.py",
        python="src/tiny_skbuild",
        library="tiny_skbuild/libtiny_skbuild.so",
        sources=("src/scale.cu",),
    ),
    Package(
        name="bitsandbytes_standin",
        module="bitsandbytes",
        probe=HERE / "bitsandbytes_standin.py",
        python="bitsandbytes",
        library="bitsandbytes/libbitsandbytes_cuda130.so",
        sources=("csrc/ops.cu", "csrc/kernels.cu"),
    ),
)


def folder_of(name: str) -> str:
    """Return a variant's name as a folder's."""
    return re.sub(r"\W+", "-", name)


def run(command: list[Any], log: Path) -> None:
    """Run a compiler; its output goes to a log."""
    with log.open("a") as stream:
        words = [str(word) for word in command]
        stream.write(f"{' '.join(words)}\n")
        stream.flush()
        subprocess.run(words, stdout=stream, stderr=stream, check=True)


@dataclass(frozen=True, kw_only=True)
class Builder:
    """A build of one package's variants in a folder."""

    package: Package
    source: Path
    work: Path

    @property
    def folder(self) -> Path:
        """The folder of the package's builds."""
        return self.work / self.package.name

    def build(self, pool: ThreadPoolExecutor, only: str) -> Iterator[Callable[[], None]]:
        """Start all compilations, and yield what waits for each variant."""
        chosen = [name for name in self.package.variants if only in name or name == GOOD]
        built = {name for name in chosen if self._library(name).exists()}
        sources = () if built == set(chosen) else self.package.sources
        good = {name: pool.submit(self._compile, GOOD, name) for name in sources}
        for folder in chosen:
            variant = self.package.variants[folder]
            if folder in built:
                yield partial(self._finish, folder, {})
                continue
            objects = dict(good)
            if variant:
                objects[variant["file"]] = pool.submit(self._compile, folder, variant["file"])
            yield partial(self._finish, folder, objects)

    def _library(self, folder: str) -> Path:
        return self.folder / folder / "site" / self.package.library

    def _compile(self, folder: str, name: str) -> Path:
        """Compile one source of a variant, and return the object file."""
        variant = self.package.variants[folder]
        place = self.folder / folder / "build"
        place.mkdir(parents=True, exist_ok=True)
        target = place / f"{Path(name).name}.o"
        if target.exists():
            return target
        text = (self.source / name).read_text()
        if variant:
            count = text.count(variant["old"])
            if count != variant.get("count", 1):
                raise ValueError(f"{variant['name']}: its text occurs {count} times in {name}")
            before, after = text.rsplit(variant["old"], 1)
            new = f"{before}{variant['new']}{after}"
            text = text.replace(variant["old"], variant["new"]) if variant.get("all") else new
        # In the folder of its headers, under a name of its own.
        source = (self.source / name).with_name(f"{folder}--{Path(name).name}")
        source.write_text(text)
        made, log = target.with_suffix(".part"), place / "compile.log"
        is_cuda = name.endswith(".cu")
        flags = list(CUDA_FLAGS) if is_cuda else ["-O2", "-std=c++17", "-fPIC", "-w"]
        if self.package.name == "causal_conv1d":
            flags += [*(TORCH_CUDA_FLAGS if is_cuda else ()), *torch_flags()]
        elif len(self.package.sources) > 1:
            flags.append("-rdc=true")
        run([nvcc() if is_cuda else "g++", "-c", *flags, source, "-o", made], log)
        made.rename(target)
        return target

    def _finish(self, folder: str, objects: dict[str, Any]) -> None:
        """Link a variant and lay it out as an installed wheel."""
        site = self.folder / folder / "site"
        if (site / "RECORD").exists():
            return
        package = self.package
        shutil.copytree(
            self.source / package.python,
            site / package.module,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("*.cu", "*.cpp"),
        )
        library = self._library(folder)
        files = [task.result() for task in objects.values()]
        log = self.folder / folder / "build" / "link.log"
        if library.exists():  # of an earlier machine
            pass
        elif package.name == "causal_conv1d":
            run(["g++", "-shared", *files, "-o", library, *torch_libraries()], log)
        else:
            more = ["-rdc=true", *blas_libraries()] if len(package.sources) > 1 else []
            run(
                [nvcc(), "-shared", "-cudart", "static", *CUDA_FLAGS, *files, "-o", library, *more],
                log,
            )
        info = site / f"{package.module}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package.module}\nVersion: 1.0\n"
        )
        names = [str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()]
        (info / "RECORD").write_text("".join(f"{name},,\n" for name in sorted(names)))
        (site / "RECORD").write_text("complete")


def nvcc() -> str:
    """Return the compiler."""
    path = f"{os.environ['PATH']}:/usr/local/cuda/bin"
    found = shutil.which("nvcc", path=path)
    if not found:
        raise SystemExit("there is no nvcc in PATH or /usr/local/cuda/bin")
    return found


def torch_flags() -> list[str]:
    """Return the flags of an extension of PyTorch."""
    from torch.utils import cpp_extension  # noqa: PLC0415 - only this package needs it

    folders = [*cpp_extension.include_paths("cuda"), sysconfig.get_paths()["include"]]
    folders.append(str(Path(nvcc()).parents[1] / "include"))
    names = ("-DTORCH_API_INCLUDE_EXTENSION_H", "-DTORCH_EXTENSION_NAME=causal_conv1d_cuda")
    return [*names, *(f"-I{folder}" for folder in folders if Path(folder).is_dir())]


def cuda_folders() -> list[Path]:
    """Return the folders with CUDA's libraries, of the toolkit and of wheels."""
    sites = [Path(path) for path in sys.path if path]
    folders = [Path(nvcc()).parents[1] / "lib64", *(site / "nvidia/cu13/lib" for site in sites)]
    return [folder for folder in folders if folder.is_dir()]


def torch_libraries() -> list[str]:
    """Return the libraries of an extension of PyTorch, which has loaded the CUDA runtime."""
    from torch.utils import cpp_extension  # noqa: PLC0415

    folders = [Path(folder) for folder in cpp_extension.library_paths("cuda")] + cuda_folders()
    names = ("c10", "torch", "torch_cpu", "torch_cuda", "torch_python", "c10_cuda")
    runtime = next(path for folder in folders for path in sorted(folder.glob("libcudart.so*")))
    return [*(f"-L{folder}" for folder in folders), *(f"-l{name}" for name in names), str(runtime)]


def blas_libraries() -> list[str]:
    """Return the libraries that bitsandbytes links."""
    paths = [
        next(path for folder in cuda_folders() for path in sorted(folder.glob(f"lib{name}.so*")))
        for name in ("cublas", "cublasLt", "cusparse")
    ]
    folders = sorted({str(path.parent) for path in paths})
    linker = [word for folder in folders for word in ("-rpath", folder)]
    return [*map(str, paths), *(f"-Xlinker={word}" for word in linker)]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A built variant."""

    package: Package
    variant: str
    work: Path
    gpu: str = ""  # its UUID; empty: the first

    @property
    def site(self) -> Path:
        """Its installed files."""
        return self.work / self.package.name / self.variant / "site"

    @property
    def is_alone(self) -> bool:
        """True if other programs on the GPU would hide what it does."""
        return bool(self.package.variants[self.variant].get("alone"))

    @property
    def is_open(self) -> bool:
        """True for the good build, and for what perf alone has passed."""
        outcome = known(self.record("perf")).get("outcome")
        return self.variant == GOOD or (outcome == "passed" and not self.is_alone)

    def record(self, kind: str) -> Path:
        """The file for what a stage found."""
        return self.work / "results" / self.package.name / f"{self.variant}.{kind}.json"

    def request(self, kind: str, *, is_timed: bool, **more: Any) -> PerfRequest:
        """Return a request for the variant, the grid or what is timed."""
        folder = self.work / "runs" / self.package.name / f"{self.variant}.{kind}"
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / "probe.py"
        probe.write_text(PROBE.format(probe=str(self.package.probe), is_timed=is_timed))
        return PerfRequest(
            recipe=self.package.name,
            probe=probe,
            new=self.place(folder),
            log=folder / "perf.log",
            is_quick=True,
            **more,
        )

    def place(self, folder: Path) -> PerfEnvironment:
        """Return this interpreter, with the variant first."""
        own = Confinement(
            sandbox="none", environment=Path(sys.prefix), base=None, folder=folder / "own"
        )
        return PerfEnvironment(
            python=Path(sys.executable),
            folder=self.site,
            name=self.variant,
            confinement=own,
            environ={**os.environ, **({"CUDA_VISIBLE_DEVICES": self.gpu} if self.gpu else {})},
        )


def try_truth(trial: Trial) -> dict[str, Any]:
    """Compute cases that the gate hasn't got, against float64."""
    script = str(HERE / "truth.py")
    command = [sys.executable, script, str(trial.package.probe), str(trial.site)]
    environ = trial.place(trial.work).environ
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=500, check=False, env=environ
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {"status": done.returncode, "errors": lines, "tail": done.stderr[-600:]}


def try_sanitizer(trial: Trial) -> dict[str, Any]:
    """Run each tool on the small cases."""
    request = trial.request("sanitize", is_timed=False)
    with start_probe(request.new, request.probe, request.log) as worker:
        started = worker.start()
    own = kernels_of([trial.site / trial.package.library], started["gpu"]["capability"])
    program, names = check_sanitizer(os.environ), small_cases(started["cases"])
    return {tool: asdict(run_tool(tool, request, program, names, own)) for tool in TOOLS}


def try_perf(trial: Trial) -> dict[str, Any]:
    """Run the grid and other small cases, without times."""
    request = trial.request("perf", is_timed=False, is_shared=True)
    return judged(measure(request, Console()), is_alone=False)


def try_against(trial: Trial) -> dict[str, Any]:
    """Compare the results of the same cases with the good build's."""
    good = replace(trial, variant=GOOD)
    request = trial.request("against", is_timed=False, is_shared=True)
    old = good.place(request.log.parent / "old")
    return judged(measure(replace(request, old=old), Console()), is_alone=False)


def try_alone(trial: Trial) -> dict[str, Any]:
    """Compare times with the good build's, without the grid."""
    good = replace(trial, variant=GOOD)
    kind = f"alone{time.time_ns()}"
    request = trial.request(kind, is_timed=True)
    old = good.place(request.log.parent / "old")
    return judged(measure(replace(request, old=old, against=GOOD), Console()), is_alone=True)


ATTEMPTS = {
    "truth": try_truth,
    "sanitize": try_sanitizer,
    "perf": try_perf,
    "against": try_against,
}


def judged(run: PerfRun, *, is_alone: bool) -> dict[str, Any]:
    """Return what a gate would do: other programs' memory isn't a leak of this one."""
    faults = [fault for fault in run.faults if is_alone or "leaks" not in fault]
    outcome = run.outcome if is_alone or faults or not run.faults else "passed"
    return {"outcome": outcome, "faults": faults, "run": as_data(run)}


Attempt = Callable[[Trial], dict[str, Any]]


def stage(trials: list[tuple[str, Trial]], attempt: Attempt, jobs: int, given: Any) -> None:
    """Try what has no record yet of its kind, so many at once on each GPU, and record each."""
    end = time.monotonic() + given.seconds
    free: queue.Queue[str] = queue.Queue()
    gpus = gpu_uuids()
    for _ in range(jobs):
        for gpu in gpus:
            free.put(gpu)

    def one(kind: str, trial: Trial) -> None:
        target = trial.record(kind)
        if target.exists() or time.monotonic() > end or not (trial.site / "RECORD").exists():
            return
        gpu = free.get()
        started = time.monotonic()
        try:
            found = attempt(replace(trial, gpu=gpu))
        except Exception as problem:  # noqa: BLE001 - recorded
            what = getattr(problem, "why", "")
            found = {"outcome": "error", "error": f"{type(problem).__name__}: {problem} {what}"}
        free.put(gpu)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**found, "seconds": round(time.monotonic() - started, 1)})
        target.write_text(text)
        why = (found.get("faults") or [found.get("error", "")])[0]
        outcome = found.get("outcome", "")
        note(f"{kind} {trial.package.name} {trial.variant}: {outcome} {why}"[:400])

    with ThreadPoolExecutor(jobs * len(gpus)) as pool:
        list(pool.map(one, *zip(*trials, strict=True)))


def gpu_uuids() -> list[str]:
    """Return the visible GPUs: a number is ambiguous where there are several."""
    if chosen := os.environ.get("CUDA_VISIBLE_DEVICES", ""):
        return chosen.split(",")
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def note(text: str) -> None:
    """Print a line at once."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)  # noqa: T201 - its output


def build_all(given: Any) -> None:
    """Build every variant; a failed one is noted."""
    with ThreadPoolExecutor(given.jobs) as pool:
        waiting = []
        for package in PACKAGES:
            if given.package not in package.name:
                continue
            source = given.work / "source" / package.name
            if not source.exists():
                causal = given.causal_conv1d
                own = ROOT / "tests" / "packages" / package.name
                shutil.copytree(causal if package.name == "causal_conv1d" else own, source)
            builder = Builder(package=package, source=source, work=given.work)
            waiting += [(package.name, wait) for wait in builder.build(pool, given.only)]
        for name, wait in waiting:
            end_build(name, wait)
    note("built")


def end_build(name: str, wait: Callable[[], None]) -> None:
    """Link what is compiled; a failure is noted, and the others go on."""
    try:
        wait()
    except (subprocess.CalledProcessError, ValueError, StopIteration) as problem:
        note(f"{name}: {problem}")


def known(path: Path) -> dict[str, Any]:
    """Return a record; empty: there is none."""
    return json.loads(path.read_text()) if path.exists() else {}


def row_of(trial: Trial) -> dict[str, Any]:
    """Return a variant's line of the table."""
    good = replace(trial, variant=GOOD)
    truth, reference = (known(item.record("truth")) for item in (trial, good))
    errors = {name: (error, units) for name, error, units in reference.get("errors", ())}
    worse = [
        name
        for name, error, units in truth.get("errors", ())
        if name in errors
        and (not math.isfinite(error) or error > WORSE * errors[name][0] + 1e-9)
        and (not math.isfinite(units) or units > WORSE * errors[name][1] + 1)
    ]
    tools = known(trial.record("sanitize"))
    clean = known(good.record("sanitize"))
    problems = [
        f"{tool}: {problem}"
        for tool in TOOLS
        for problem in tools.get(tool, {}).get("problems", ())
        if problem.partition(" (")[0]
        not in {other.partition(" (")[0] for other in clean.get(tool, {}).get("problems", ())}
    ]
    perf = known(trial.record("alone" if trial.is_alone else "perf"))
    outcome = perf.get("outcome", "")
    return {
        "package": trial.package.name,
        "variant": trial.package.variants[trial.variant].get("name", GOOD),
        "rows compared": len(truth.get("errors", ())),
        "rows worse": len(worse),
        "truth ended with": truth.get("status"),
        "sanitizers": problems,
        "perf": outcome,
        "against good": known(trial.record("against")).get("outcome", ""),
        "why": (perf.get("faults") or [perf.get("error", "")])[0],
        "seconds": perf.get("seconds"),
    }


def make_table(given: Any, trials: list[Trial]) -> None:
    """Write the table as JSON and for people."""
    rows = [row_of(trial) for trial in trials]
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "variants.json").write_text(json.dumps(rows, indent=1))
    titles = ("package", "variant", "rows worse", "sanitizers", "perf", "against good")
    lines = ["| " + " | ".join(titles) + " | why |", "| --- " * (len(titles) + 1) + "|"]
    for row in rows:
        cells = [
            f"{row['rows worse']} of {row['rows compared']}"
            if title == "rows worse"
            else "; ".join(row[title])[:120]
            if title == "sanitizers"
            else str(row[title])
            for title in titles
        ]
        lines.append("| " + " | ".join([*cells, str(row["why"])[:160]]) + " |")
    (given.out / "variants.md").write_text("\n".join(lines) + "\n")
    archive = shutil.make_archive(str(given.out / "records"), "gztar", given.work, "results")
    note(f"{given.out / 'variants.md'}, {archive}")


def main() -> int:
    """Run one stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=(*ATTEMPTS, "build", "alone", "table"))
    parser.add_argument("--work", type=lambda text: Path(text).absolute(), required=True)
    parser.add_argument("--causal-conv1d", type=Path, metavar="FOLDER")
    parser.add_argument("--out", type=lambda text: Path(text).absolute(), metavar="DIR")
    parser.add_argument("--jobs", type=int, default=8, help="at once, on each GPU")
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--package", default="", help="only variants of this one")
    parser.add_argument("--only", default="", help="only variants with this in their name")
    given = parser.parse_args()
    trials = [
        Trial(package=package, variant=variant, work=given.work)
        for package in PACKAGES
        for variant in package.variants
        if given.package in package.name and given.only in variant
    ]
    if given.stage == "build":
        build_all(given)
    elif given.stage == "table":
        make_table(given, trials)
    elif given.stage == "alone":
        stage([("alone", trial) for trial in trials if trial.is_alone], try_alone, 1, given)
    else:
        if given.stage in {"sanitize", "against"}:  # what is caught already needs no more
            trials = [trial for trial in trials if trial.is_open]
        stage([(given.stage, trial) for trial in trials], ATTEMPTS[given.stage], given.jobs, given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
