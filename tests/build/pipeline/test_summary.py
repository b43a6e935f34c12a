"""The table at the end of a build, as a narrow terminal shows it."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
import rich.console

from cuwheel.base.system.console import Console
from cuwheel.base.system.output.github import SUMMARY_VARIABLE
from cuwheel.build.pipeline.summary import Summary, print_summary, summary_in
from cuwheel.build.recipe.platform import PLATFORMS

_SUMMARY = Summary(
    wheel="causal_conv1d-1.6.1+cu130torch2.11-cp312-cp312-manylinux_2_34_x86_64.whl",
    size=10098,
    sha256="0123456789abcdef" * 4,
    archs=("90",),
    ptx_archs=(),
    platform_tag="manylinux_2_34_x86_64",
    external=(
        ("libcudart.so.13", "nvidia-cuda-runtime (nvidia/cu13/lib)"),
        ("libc10.so", "torch (torch/lib)"),
    ),
    durations=(("build", 70.0), ("smoke", 5.0)),
    peak_memory=0,
)


def printed(dist: Path = Path("my dist"), *, is_verbose: bool = False) -> list[str]:
    stream = io.StringIO()
    console = Console(rich.console.Console(file=stream, width=80))
    console.is_verbose = is_verbose
    print_summary(_SUMMARY, dist, console)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_breaks_nothing_that_is_copied(width: int) -> None:
    stream = io.StringIO()

    print_summary(_SUMMARY, Path("dist"), Console(rich.console.Console(file=stream, width=width)))

    for copied in (f"dist/{_SUMMARY.wheel}", _SUMMARY.sha256, f"pip install dist/{_SUMMARY.wheel}"):
        assert any(line.rstrip().endswith(copied) for line in stream.getvalue().splitlines())


def test_fits_a_small_terminal() -> None:
    lines = printed()

    assert len(lines) < 24
    assert "external     2 libraries from nvidia-cuda-runtime, torch" in lines
    assert "time         1:15: build 1:10, smoke 5.0 s" in lines
    assert f"sha256       {_SUMMARY.sha256}" in lines
    assert lines[-2:] == ["next", f"pip install 'my dist/{_SUMMARY.wheel}'"]
    verbose = printed(is_verbose=True)
    assert "             libc10.so from torch (torch/lib)" in verbose
    assert "stages       build           70.0 s" in verbose


@pytest.mark.parametrize("dist", ["dist", "/srv/dist"])
def test_names_wheel_in_the_folder_as_it_is_shown(dist: str) -> None:
    assert f"pip install {dist}/{_SUMMARY.wheel}" in printed(Path(dist))


def test_is_the_summary_of_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of GitHub Actions: short, even for a verbose console, and nothing in it is markup."""
    step = tmp_path / "summary.md"
    monkeypatch.setenv(SUMMARY_VARIABLE, str(step))

    printed(is_verbose=True)

    rows = step.read_text().splitlines()
    assert rows[:2] == ["| | |", "| --- | --- |"]
    assert any(row.startswith(r"| wheel | my dist/causal\_conv1d-1.6.1+cu130") for row in rows)
    assert "| time | 1:15: build 1:10, smoke 5.0 s |" in rows
    assert not any("libc10" in row for row in rows)


@pytest.mark.parametrize("index", ["a.json", "wheels.json"])
def test_finds_record_of_wheel_next_to_that_of_index(index: str, tmp_path: Path) -> None:
    folder = tmp_path / ".cuwheel"
    folder.mkdir()
    (folder / "tiny-130-cp312.json").write_text('{"summary": {"wheel": "tiny.whl"}}')
    (folder / index).write_text('{"files": {}}')

    assert summary_in(tmp_path) == {"wheel": "tiny.whl"}


def test_names_the_machine_that_installs_the_wheel() -> None:
    other = next(platform for platform in PLATFORMS.values() if platform.is_foreign)
    wheel = f"tiny-1.0-py3-none-manylinux_2_17_{other.machine}.whl"
    summary = dataclasses.replace(_SUMMARY, wheel=wheel, platform_tag=f"linux_{other.machine}")
    stream = io.StringIO()

    print_summary(summary, Path("dist"), Console(rich.console.Console(file=stream, width=120)))

    assert f"on a machine with {other.machine}: pip install {wheel}" in stream.getvalue()
