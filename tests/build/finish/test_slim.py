"""Wheels for fewer GPUs, compared with what the real nvcc makes for these alone."""

from __future__ import annotations

import ctypes
import io
from pathlib import Path

import pytest
import rich.console

from cuwheel.base.errors import SmokeError, UsageError
from cuwheel.base.formats.binaries.elf import read_elf
from cuwheel.base.formats.binaries.fatbin import LOADED_SECTION, hop_fatbins
from cuwheel.base.formats.wheel.archive import check_table, open_wheel, unpack_wheel
from cuwheel.base.system.console import Console, silent_console
from cuwheel.build.finish.slim import slim_wheel
from cuwheel.check.audit.verdict import audit_wheel
from cuwheel.cli.dispatch import run_command
from tests.support.check.environments import make_env
from tests.support.documents import read_document
from tests.support.factories import compile_cuda, write_wheel

_CODE = """
template <int N> __global__ void scale(float *p) { p[threadIdx.x] *= N; }
extern "C" int answer() { return 42; }
extern "C" void run(float *p) { scale<2><<<1, 32>>>(p); scale<3><<<1, 32>>>(p); }
"""
_MANY = ["75", "80", "90"]


def _flags(sass: list[str], ptx: str = "", mode: str = "none") -> list[str]:
    flags = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in sass]
    flags += [f"-gencode=arch=compute_{ptx},code=compute_{ptx}"] * bool(ptx)
    return ["-cudart=static", f"--compress-mode={mode}", *flags]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slim")


@pytest.fixture(scope="module")
def source(folder: Path) -> Path:
    source = folder / "scale.cu"
    source.write_text(_CODE)
    return source


@pytest.fixture(scope="module")
def library(folder: Path, cuda_home: Path, source: Path) -> Path:
    return compile_cuda(folder / "many.so", cuda_home, source, *_flags(_MANY, "90", "size"))


@pytest.fixture(scope="module")
def wheel(folder: Path, library: Path) -> Path:
    return write_wheel(folder, {"pkg/_C.so": library, "pkg/__init__.py": b""}, version="1.0+cu130")


@pytest.fixture(scope="module")
def python(folder: Path) -> str:
    """The Python of an environment without packages: a process gets links to all that it has."""
    return str(make_env(folder).python)


def _fatbins(library: Path) -> list[bytes]:
    """Return the fat binaries of a library, without padding."""
    content = library.read_bytes()
    section = read_elf(io.BytesIO(content)).section(LOADED_SECTION)
    assert section
    starts = [fatbin.offset for fatbin in hop_fatbins(io.BytesIO(content), section)]
    sizes = [int.from_bytes(content[start + 8 : start + 16], "little") for start in starts]
    return [content[start : start + 16 + size] for start, size in zip(starts, sizes, strict=True)]


@pytest.mark.parametrize(
    ("gpus", "made"),
    [
        (["90"], _flags(["90"], mode="size")),
        pytest.param(["75", "90"], _flags(["75", "90"], mode="size"), marks=pytest.mark.e2e),
        pytest.param(["86"], _flags(["80"], mode="size"), marks=pytest.mark.e2e),
        (["120"], _flags([], "90", mode="size")),
    ],
    ids=["one", "two", "nearest", "ptx"],
)
def test_keeps_what_nvcc_makes_for_these_gpus(
    tmp_path: Path, cuda_home: Path, wheel: Path, gpus: list[str], made: list[str]
) -> None:
    slim = slim_wheel(wheel, gpus, tmp_path / "out")

    unpack_wheel(slim.path, tmp_path)
    alone = compile_cuda(tmp_path / "alone.so", cuda_home, wheel.parent / "scale.cu", *made)
    kept = [fatbin for fatbin in _fatbins(tmp_path / "pkg/_C.so") if len(fatbin) > 1000]
    assert kept == [fatbin for fatbin in _fatbins(alone) if len(fatbin) > 1000]


def test_changes_nothing_else(tmp_path: Path, library: Path, wheel: Path) -> None:
    slim = slim_wheel(wheel, ["90"], tmp_path / "out")

    assert slim.path.name == wheel.name.replace("+cu130", "+cu130.sm90")
    with open_wheel(slim.path) as opened:
        check_table(opened)
        assert "Version: 1.0+cu130.sm90" in opened.read_text("METADATA")
    unpack_wheel(slim.path, tmp_path)
    reduced = tmp_path / "pkg/_C.so"
    assert reduced.stat().st_size == library.stat().st_size
    assert ctypes.CDLL(str(reduced)).answer() == 42
    [changed] = slim.libraries
    assert changed.before.sass == ("75", "80", "90")
    assert (changed.after.sass, changed.after.ptx) == (("90",), ())
    assert slim_wheel(wheel, ["90"], tmp_path / "again").path.read_bytes() == slim.path.read_bytes()


def test_session_prints_path(
    tmp_path: Path, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = io.StringIO()
    console = Console(rich.console.Console(file=shown, width=100))

    run_command("slim", [str(wheel), "--arch", "90", "--to", str(tmp_path / "out")], console)

    assert Path(capsys.readouterr().out.strip()).parent == tmp_path / "out"
    assert {"sm_75 sm_80 sm_90 compute_90 (PTX)", "sm_90"} <= {
        cell.strip() for line in shown.getvalue().splitlines() for cell in line.split("  ")
    }


def test_document_has_sizes_and_archs(
    tmp_path: Path, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(wheel), "--arch", "90", "--to", str(tmp_path / "out"), "--json"]

    run_command("slim", words, silent_console())

    document = read_document(capsys.readouterr().out, "slim")
    assert document["size"] < document["size_before"]
    assert document["libraries"][0]["after"]["sass"] == ["90"]


def test_library_without_code_for_the_gpu_keeps_its_smallest(
    tmp_path: Path, source: Path, cuda_home: Path, library: Path
) -> None:
    old = compile_cuda(tmp_path / "old.so", cuda_home, source, *_flags(["75", "80"]))
    wheel = write_wheel(tmp_path, {"pkg/_C.so": library, "pkg/_old.so": old})

    slim = slim_wheel(wheel, ["90"], tmp_path / "out")

    codes = {changed.name: changed.after.sass for changed in slim.libraries}
    assert codes["pkg/_C.so"] == ("90",)
    assert len(codes["pkg/_old.so"]) == 1


@pytest.mark.parametrize(
    ("gpus", "files", "why"),
    [
        (["70"], {}, "it has sm_75, sm_80, sm_90"),
        (["90"], {"tiny_cuda-1.2.3.dist-info/RECORD.jws": b"x"}, "a signature is valid"),
        (["90"], {"tiny_cuda-1.2.3.dist-info/variant.json": b"{}"}, "a signature is valid"),
    ],
    ids=["no code", "signature", "variant"],
)
def test_refuses(
    tmp_path: Path, library: Path, gpus: list[str], files: dict[str, bytes], why: str
) -> None:
    wheel = write_wheel(tmp_path, {"pkg/_C.so": library, **files})

    with pytest.raises(UsageError) as caught:
        slim_wheel(wheel, gpus, tmp_path / "out")

    assert caught.value.why.startswith(why)
    assert not (tmp_path / "out").exists()


def test_refuses_wheel_that_has_nothing_else(tmp_path: Path, source: Path, cuda_home: Path) -> None:
    one = compile_cuda(tmp_path / "one.so", cuda_home, source, *_flags(["90"]))
    wheels = [write_wheel(tmp_path, {"pkg/_C.so": one}), write_wheel(tmp_path / "b", {"a.py": b""})]

    for wheel in wheels:
        with pytest.raises(UsageError):
            slim_wheel(wheel, ["90"], tmp_path / "out")


def test_damaged_library_is_named(tmp_path: Path, library: Path) -> None:
    content = library.read_bytes()
    section = read_elf(io.BytesIO(content)).section(LOADED_SECTION)
    assert section
    damaged = bytearray(content)
    damaged[section.offset : section.offset + 4] = b"\1\2\3\4"
    wheel = write_wheel(tmp_path, {"pkg/_C.so": bytes(damaged)})

    with pytest.raises(UsageError) as caught:
        slim_wheel(wheel, ["90"], tmp_path / "out")

    assert caught.value.what == "_C.so can't be reduced"


def test_of_a_reduced_wheel_names_the_gpus_once(tmp_path: Path, wheel: Path) -> None:
    first = slim_wheel(wheel, ["80", "90"], tmp_path / "first")

    second = slim_wheel(first.path, ["90"], tmp_path / "second")

    assert second.path.name == slim_wheel(wheel, ["90"], tmp_path / "out").path.name


def test_takes_the_name_that_a_link_leads_to(tmp_path: Path, wheel: Path) -> None:
    (tmp_path / "short.whl").symlink_to(wheel)
    (tmp_path / "copy.zip").write_bytes(wheel.read_bytes())

    slim = slim_wheel(tmp_path / "short.whl", ["90"], tmp_path / "out")

    assert slim.path.name.endswith("-cp311-cp311-linux_x86_64.whl")
    with pytest.raises(UsageError):
        slim_wheel(tmp_path / "copy.zip", ["90"], tmp_path / "out")


def test_audit_takes_code_that_runs_there(tmp_path: Path, library: Path) -> None:
    wheel = write_wheel(tmp_path, {"pkg/_C.so": library})

    slim = slim_wheel(wheel, ["86"], tmp_path / "out")

    findings = audit_wheel(slim.path).findings
    assert [each.severity for each in findings if each.rule == "archs"] == ["note"]  # no PTX


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", "load proof: both import pkg"),
        ("import nowhere", "load proof: both fail alike: ModuleNotFoundError: No module named"),
        ("raise ImportError(__file__)", "both fail alike: ImportError: pkg/__init__.py"),
    ],
)
def test_both_wheels_are_imported(  # noqa: PLR0913, PLR0917 - two facts and fixtures
    library: Path,
    python: str,
    tmp_path: Path,
    code: str,
    expected: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wheel = write_wheel(tmp_path, {"pkg/_C.so": library, "pkg/__init__.py": code.encode()})
    words = [str(wheel), "--arch", "90", "--to", str(tmp_path / "slim"), "--python", python]

    run_command("slim", words, Console(rich.console.Console(width=200)))

    assert expected in " ".join(capsys.readouterr().out.split())


def test_wheel_that_loads_otherwise_is_refused(library: Path, python: str, tmp_path: Path) -> None:
    code = b"from importlib.metadata import version\nassert version('pkg') == '1.0'\n"
    wheel = write_wheel(
        tmp_path, {"pkg/_C.so": library, "pkg/__init__.py": code}, name="pkg", version="1.0"
    )
    words = [str(wheel), "--arch", "90", "--to", str(tmp_path / "slim"), "--python", python]

    with pytest.raises(SmokeError, match="doesn't load as"):
        run_command("slim", words, Console())

    assert not list((tmp_path / "slim").glob("*.whl"))
