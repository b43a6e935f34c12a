"""Kinds of faults that somebody else thought of: each found, and its opposite left alone."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.check.diagnose.facts.machine import OF_SYSTEM, mount_without_programs
from cuwheel.check.diagnose.facts.variables import find_culprit
from cuwheel.check.diagnose.rules import known_causes
from cuwheel.check.diagnose.rules.known_causes import find_known_cause
from cuwheel.check.diagnose.verdict import Diagnosis
from tests.check.diagnose.samples import make_context, make_distribution, make_environment
from tests.support.check.environments import Env, look_into, verdict_on

_EXTRA = "python -m pip install 'own[cu12]==1.0'"
_DAMAGED = "diagnose-damaged-installation"


def install_triton(env: Env, ptxas: bytes, mode: int) -> None:
    files: dict[str, bytes | Path] = {
        "triton/__init__.py": b"",
        "triton/runtime/__init__.py": b"",
        "triton/runtime/build.py": b"",
        "triton/backends/nvidia/bin/ptxas": ptxas,
    }
    env.install("triton", files)
    (env.site / "triton/backends/nvidia/bin/ptxas").chmod(mode)


def faults(env: Env, *names: str, **variables: str) -> list[Diagnosis]:
    verdicts = look_into(env, *names, recipes=(), **variables).verdicts
    return [one for one in verdicts if one.level in {"warning", "broken"}]


@pytest.mark.parametrize("hides", ["random", "enum", "typing"])
def test_starts_where_callers_folder_hides_a_module_of_python(tmp_path: Path, hides: str) -> None:
    (tmp_path / f"{hides}.py").write_text("raise SystemExit('hidden')\n")
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}

    done = subprocess.run(
        [sys.executable, "-m", "cuwheel", "--version"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        check=False,
    )

    assert b"hidden" not in done.stderr


@pytest.mark.parametrize(
    ("ptxas", "mode", "error"),
    [
        (b"#!/bin/sh\n", 0o644, "PermissionError"),
        (b"\x7fELF", 0o755, "Exec format"),
        (b"#!/bin/sh\n", 0o755, ""),
    ],
)
def test_starts_ptxas_of_triton(env: Env, ptxas: bytes, mode: int, error: str) -> None:
    install_triton(env, ptxas, mode)

    found = faults(env)

    assert [error in one.cause for one in found] == [True] * bool(error)
    assert all(one.command.endswith("triton==1.2.3") for one in found)


def test_names_variable_with_a_missing_compiler(env: Env) -> None:
    install_triton(env, b"#!/bin/sh\n", 0o755)

    [verdict] = faults(env, CC="/no/gcc")

    assert (verdict.command, verdict.anchor) == ("unset CC", "diagnose-variable")


def test_names_variable_of_any_name_and_only_its_bad_part() -> None:
    environ = {"PATH": "/bin", "A": "1", "XLA_FLAGS": "--good=1 --bad=2", "B": "2"}

    change = find_culprit(lambda variables: "--bad" not in variables.get("XLA_FLAGS", ""), environ)

    assert change
    assert change.command == "export XLA_FLAGS=--good=1"
    assert find_culprit(lambda _: False, environ) is None


def test_imports_nvidias_own_modules(env: Env) -> None:
    env.install("nvidia_cudnn_frontend", {"cudnn/__init__.py": b"raise OSError('no cudnn')\n"})
    env.install("nvidia_cublas", {"nvidia/cublas/lib/x.txt": b""})

    [verdict] = faults(env)

    assert verdict.cause == "OSError: no cudnn"


def test_removes_link_to_nothing_before_it_installs(env: Env) -> None:
    env.install("dep", {"dep/__init__.py": b"", "dep/libdep.so": env.compile("libdep.so", "")})
    env.offer("dep", {"dep/__init__.py": b"", "dep/libdep.so": env.compile("libdep.so", "")})
    library = env.extension("", "libcuda.so.1")
    env.install("ext", {"ext/__init__.py": b"import dep\n", "ext/e.so": library}, requires=("dep",))
    (env.site / "dep").rename(env.site / "aside")
    (env.site / "dep").symlink_to("gone")

    verdict = verdict_on(look_into(env), _DAMAGED)

    env.shell(verdict.command)
    assert faults(env) == []


def test_names_programs_with_foreign_line_ends(env: Env) -> None:
    program = env.python.parent / "tool"
    program.write_bytes(f"#!{env.python}\r\nprint(1)\r\n".encode())

    [verdict] = faults(env)

    env.shell(verdict.command)
    assert faults(env) == []


def test_uses_no_pip_without_its_files(env: Env) -> None:
    env.install("pip", {"pip/__init__.py": b"", "pip/_vendor/__init__.py": b""})
    assert faults(env) == []
    (env.site / "pip/_vendor/__init__.py").unlink()

    [verdict] = faults(env)

    assert verdict.command.endswith(" -m ensurepip")


@pytest.mark.parametrize(
    ("exception", "command"),
    [
        ("EOFError: marshal data too short", "find site -name '*.pyc' -delete"),
        (
            "TypeError: Descriptors cannot be created directly",
            "python -m pip install 'protobuf<3.21'",
        ),
        ("ModuleNotFoundError: No module named 'setuptools'", "python -m pip install setuptools"),
        (
            "ModuleNotFoundError: No module named 'pkg_resources'",
            "python -m pip install 'setuptools<81'",
        ),
        (
            "OSError: libcudnn.so.9: cannot open shared object file",
            "python -m pip install nvidia-cudnn-cu12",
        ),
        (
            'DynamicLibNotFoundError: Failure finding "libnvrtc.so.13 or libnvrtc.so.12": No file',
            "python -m pip install nvidia-cuda-nvrtc-cu12",
        ),
        ('DynamicLibNotFoundError: Failure finding "libcufft.so.11": No file', None),
        ("ImportError: libGL.so.1: cannot open shared object file", "apt-get install libgl1"),
        (
            "AttributeError: module 'numpy' has no attribute 'row_stack'",
            "python -m pip install 'numpy<2.5'",
        ),
        ("AttributeError: module 'numpy' has no attribute 'odd'", ""),
        ("ValueError: odd", None),
        ("ModuleNotFoundError: No module named 'own'", None),
        ("ModuleNotFoundError: No module named 'cuda.bindings'", _EXTRA),
        ("ImportError: cannot import name 'bindings' from 'cuda' (unknown location)", _EXTRA),
        ("ImportError: cannot import name 'other' from 'cuda' (unknown location)", None),
        ("OSError: libcufft.so.11: cannot open shared object file", None),
    ],
)
def test_knows_causes_by_their_message(
    monkeypatch: pytest.MonkeyPatch, exception: str, command: str | None
) -> None:
    monkeypatch.setattr(known_causes, "modules_of", lambda own: (own.name,))
    installed = [make_distribution(name) for name in ("nvidia-cublas-cu12", "nvidia-cufft-cu12")]
    installed.append(make_distribution("numpy", version="2.5.0"))
    if "pkg_resources" in exception:
        installed.append(make_distribution("setuptools", version="84.0.0"))
    owner = make_distribution("own", requires=('cuda-bindings; extra == "cu12"',))

    cause = find_known_cause(exception, owner, make_context(owner, *installed))

    assert (cause and cause.command) == command


@pytest.mark.parametrize("is_editable", [False, True])
def test_names_compiled_module_of_another_python(env: Env, *, is_editable: bool) -> None:
    package = (env.folder / "project" if is_editable else env.site) / "ext"
    package.mkdir(parents=True)
    (package / "_core.cpython-36-x86_64-linux-gnu.so").touch()
    origin = {"url": (env.folder / "project").as_uri(), "dir_info": {"editable": is_editable}}
    metadata = env.folder / "ext.dist-info"
    metadata.mkdir()
    (metadata / "direct_url.json").write_text(json.dumps(origin))
    owner = make_distribution("ext", env.site, metadata=metadata)
    environment = dataclasses.replace(make_environment(owner), sites=(env.site,))
    context = make_context(owner, environment=environment)

    cause = find_known_cause("ModuleNotFoundError: No module named 'ext._core'", owner, context)

    assert cause is not None
    assert cause.why.startswith(f"{package}/_core.cpython-36-x86_64-linux-gnu.so is for another")
    assert ("pip install -e" in cause.fix) == is_editable


@pytest.mark.parametrize("has_folder", [False, True])
def test_names_lost_folder_of_runpath(env: Env, *, has_folder: bool) -> None:
    core = env.compile("libcore.so.2", "int core;")
    folder = env.folder / "build"
    folder.mkdir()
    flags = ("-Wl,--no-as-needed", core, f"-Wl,-rpath,{folder}")
    library = env.compile("a.so", "int a;", *flags)
    loads = b"import ctypes\nctypes.CDLL(__file__[:-11] + 'a.so')\n"
    files: dict[str, bytes | Path] = {"ext/__init__.py": loads, "ext/a.so": library}
    env.install("ext", files)
    if not has_folder:
        folder.rmdir()

    [verdict] = [one for one in look_into(env, "ext").verdicts if one.level == "broken"]

    assert "libcore.so.2: cannot open" in verdict.cause
    assert "; a.so of ext 1.2.3 needs it" in verdict.cause
    assert (f"RUNPATH leads to {folder}, which isn't there" in verdict.cause) != has_folder


@pytest.mark.parametrize("names", [(), ("ext",)])
@pytest.mark.parametrize("soname", ["libgone.so.1", "libother.so.1"])
def test_names_absent_library_of_the_system(
    env: Env, monkeypatch: pytest.MonkeyPatch, soname: str, names: tuple[str, ...]
) -> None:
    """Also of a package without GPU code, and where a folder of its rpath is gone."""
    monkeypatch.setitem(OF_SYSTEM, "libgone.so.1", "libgone1")
    flags = ("-Wl,--no-as-needed", env.compile(soname, ""), "-Wl,-rpath,$ORIGIN/gone")
    loads = b"import ctypes\nctypes.CDLL(__file__[:-11] + 'a.so')\n"
    library = env.compile("a.so", "int a;", *flags)
    env.install("ext", {"ext/__init__.py": loads, "ext/a.so": library})

    commands = [one.command for one in faults(env, *names)]

    assert commands == {"libgone.so.1": ["apt-get install libgone1"]}.get(soname, [""])


def test_names_machine_of_a_library_that_the_loader_refuses(tmp_path: Path) -> None:
    library = tmp_path / "a.so"
    own, context = make_distribution("ext"), make_context()
    refusal = f"ImportError: {library}: cannot open shared object file: No such file or directory"
    assert find_known_cause(refusal, own, context) is None

    number = 62 if platform.machine() == "aarch64" else 183
    library.write_bytes(b"\x7fELF\2\1" + bytes(12) + number.to_bytes(2, "little"))

    known = find_known_cause(refusal, own, context)
    assert known
    assert known.why.endswith(f", and this machine is {platform.machine()}")


def test_names_mount_without_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.so").touch()
    assert mount_without_programs(tmp_path / "a.so") is None
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    assert mount_without_programs(Path("/proc/self/status")) == Path("/proc")
    assert mount_without_programs(tmp_path / "gone.so") is None
    refusal = f"ImportError: {tmp_path}/a.so: failed to map segment from shared object"
    known = find_known_cause(refusal, make_distribution("ext"), make_context())
    assert known
    assert "is mounted with noexec" in known.why


def test_names_machine_of_another_python(env: Env) -> None:
    number = 62 if platform.machine() == "aarch64" else 183
    env.python.unlink()
    env.python.write_bytes(b"\x7fELF\2\1" + bytes(12) + number.to_bytes(2, "little") + bytes(99))
    env.python.chmod(0o755)

    verdict = verdict_on(look_into(env), "python-not-found")

    assert verdict.what.endswith(f", and this machine is {platform.machine()}")


@pytest.mark.parametrize(("limit", "is_cause"), [(600 << 20, True), (-1, False)])
def test_names_limit_of_memory(
    monkeypatch: pytest.MonkeyPatch, limit: int, *, is_cause: bool
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))

    owner, context = make_distribution("ext"), make_context()
    known = find_known_cause("MemoryError: ", owner, context)

    assert (known is not None) == is_cause
    # Other faults aren't its cause.
    assert (known_causes.judge_known("", "MemoryError: ", owner, context, "") is None) != is_cause
    if known:
        assert "to 600 MiB" in known.why
        assert known.command == "ulimit -v unlimited"


@pytest.mark.parametrize(("name", "is_cause"), [("fast", True), ("other", False)])
def test_names_owner_of_lost_backend(tmp_path: Path, name: str, *, is_cause: bool) -> None:
    (tmp_path / "entry_points.txt").write_text(f"[torch.backends]\n{name} = lost:load\n")
    own = make_distribution("torch-fast", tmp_path)
    text = "RuntimeError: Failed to load the backend extension: fast. You can disable it"

    known = find_known_cause(text, make_distribution("torch"), make_context(own))

    assert (known is not None) == is_cause
    if known:
        assert known.command == "python -m pip uninstall -y torch-fast"


@pytest.mark.parametrize("is_damaged", [False, True])
def test_checks_what_an_import_has_loaded(env: Env, *, is_damaged: bool) -> None:
    """As torch, which imports NumPy without requiring it."""
    env.install("dep", {"dep/__init__.py": b"", "dep/part.py": b""})
    (env.site / "dep-1.2.3.dist-info" / "INSTALLER").write_text("pip\n")
    if is_damaged:
        (env.site / "dep" / "part.py").unlink()
    env.install_torch(more="import dep.part")

    verdicts = look_into(env, "torch").verdicts

    found = [one for one in verdicts if one.level == "broken"]
    assert [one.what for one in found] == (
        ["dep 1.2.3 is damaged", "torch 2.11.0+cu130 can't be imported"] if is_damaged else []
    )
    for one in found:
        assert one.command.endswith("dep==1.2.3")


def test_judges_no_library_for_another_cuda_without_a_framework(env: Env) -> None:
    """Of several for different releases a package opens one: none under a torch for the CPU."""
    files: dict[str, bytes | Path] = {
        f"ext/for{major}.so": env.extension("", f"libcudart.so.{major}").read_bytes()
        for major in (12, 13)
    }
    env.install("ext", {"ext/__init__.py": b"", **files})
    assert "libcudart" not in str(look_into(env, "ext").verdicts)

    (env.site / "ext" / "for13.so").unlink()
    record = env.site / "ext-1.2.3.dist-info" / "RECORD"
    lines = [line for line in record.read_text().splitlines() if "for13" not in line]
    record.write_text("\n".join(lines))
    found = look_into(env, "ext").verdicts
    assert "libcudart.so.12" in str(found), [str(one) for one in found]


@pytest.mark.parametrize("project", ["tensorflow", "tensorflow-cpu"])
@pytest.mark.parametrize(("source", "count"), [("class keras:\n    layers = 1\n", 0), ("", 1)])
def test_imports_tensorflow_where_it_is_named(
    env: Env, project: str, source: str, count: int
) -> None:
    env.install(project.replace("-", "_"), {"tensorflow/__init__.py": source.encode()})

    verdicts = look_into(env, "tensorflow").verdicts

    found = [one for one in verdicts if one.level == "broken"]
    assert [one.what for one in found] == [f"{project} 1.2.3 can't use Keras"] * count
