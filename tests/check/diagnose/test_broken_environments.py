"""Environments that fail for other reasons than CUDA: the exception of each import is the cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuwheel.check.diagnose.diagnose import DiagnoseOptions, diagnose
from cuwheel.check.diagnose.document import DiagnoseDocument
from cuwheel.check.diagnose.verdict import Diagnosis
from tests.support.check.environments import CALLERS_PATH, Env, look_into, verdict_on

_RUNTIME = "libcudart.so.13"
_DEP = {"dep/__init__.py": b"def function(): pass\n", "dep/part.py": b"x = 1\n"}
_TWO_ERRORS = """
try:
    import gone
except ImportError as error:
    raise ImportError("\\n=====\\nno ext\\n") from error
"""
_OPENS_OWN = """
import ctypes, pathlib
here = pathlib.Path(__file__).parent
for name in ("own/libcudart.so.13", "libext.so"):
    ctypes.CDLL(str(here / name))
"""


def install_ext(env: Env, source: str = "import dep\ndep.function()\n") -> None:
    """A GPU package that imports a dependency, and finds none of CUDA's libraries."""
    env.install("dep", _DEP)
    library = env.extension("", _RUNTIME)
    files: dict[str, bytes | Path] = {"ext/__init__.py": source.encode(), "ext/libext.so": library}
    env.install("ext", files, requires=("dep",))


def look_from(env: Env, start: Path, python: Path | None = None) -> DiagnoseDocument:
    options = DiagnoseOptions(python=str(python or env.python), start=start, project=env.folder)
    return diagnose(options, {"PATH": CALLERS_PATH, "HOME": str(env.folder)}, ())


def failure_of(report: DiagnoseDocument, title: str = "ext 1.2.3") -> Diagnosis:
    [verdict] = [one for one in report.verdicts if one.what == f"{title} can't be imported"]
    return verdict


def is_invented(report: DiagnoseDocument) -> bool:
    """Return True if a library is blamed that the import hasn't come to."""
    return any("doesn't find" in verdict.what for verdict in report.verdicts)


def test_reports_the_exception_and_no_other_cause(env: Env) -> None:
    install_ext(env, "raise ValueError('the real reason')\n")

    report = look_into(env)

    assert failure_of(report).cause == "ValueError: the real reason"
    assert not is_invented(report)


def test_reports_first_exception_behind_the_last(env: Env) -> None:
    install_ext(env, _TWO_ERRORS)

    cause = failure_of(look_into(env)).cause

    assert cause == "ImportError: no ext; before it, ModuleNotFoundError: No module named 'gone'"


def test_repairs_deleted_file_of_a_dependency(env: Env) -> None:
    install_ext(env, "import dep.part\n")
    env.offer("dep", _DEP)
    (env.site / "dep" / "part.py").unlink()

    report = look_into(env)

    assert failure_of(report).cause == "ModuleNotFoundError: No module named 'dep.part'"
    assert "part.py isn't there" in verdict_on(report, "diagnose-damaged-installation").cause
    assert not is_invented(report)
    env.shell(failure_of(report).command)
    assert not [one for one in look_into(env).verdicts if "can't be imported" in one.what]


def test_names_module_of_the_path_that_hides_a_dependency(env: Env) -> None:
    install_ext(env)
    user = env.folder / "user"
    user.mkdir()
    (user / "dep.py").write_text("x = 1\n")

    report = look_into(env, PYTHONPATH=str(user))

    verdict = verdict_on(report, "diagnose-shadowed-module")
    assert verdict.what == f"{user / 'dep.py'} hides dep 1.2.3"
    assert "no attribute 'function'" in failure_of(report).cause
    assert failure_of(report).command == verdict.command == "unset PYTHONPATH"
    assert not is_invented(report)


def test_names_module_of_the_users_folder_that_hides_a_dependency(env: Env) -> None:
    install_ext(env)
    user = env.folder / "user"
    user.mkdir()
    (user / "dep.py").write_text("x = 1\n")

    verdict = verdict_on(look_from(env, user), "diagnose-shadowed-module")

    assert verdict.what.startswith(f"{user / 'dep.py'} hides dep 1.2.3 from what is started in ")
    (user / "dep.py").rename(user / "other.py")
    anchors = {one.anchor for one in look_from(env, user).verdicts}
    assert "diagnose-shadowed-module" not in anchors


def test_takes_no_symbol_of_the_cxx_library_for_torchs(env: Env) -> None:
    install_ext(env, "raise ImportError('x.so: undefined symbol: _ZSt4cerr')\n")

    assert failure_of(look_into(env)).anchor == "glibcxx-too-old"


@pytest.mark.parametrize(
    ("name", "content"),
    [("bad.pth", "import nonexistent_module\n"), ("sitecustomize.py", "raise ValueError('odd')\n")],
)
def test_names_startup_file_that_raises(env: Env, name: str, content: str) -> None:
    (env.site / name).write_text(content)

    verdict = verdict_on(look_into(env), "diagnose-startup-file")

    assert name.partition(".")[0] in verdict.what
    assert "Error: " in verdict.cause


def test_finds_project_by_the_name_of_its_module(env: Env) -> None:
    library = env.extension("", "libcuda.so.1")
    env.install("ext_cuda13x", {"ext/__init__.py": b"", "ext/libext.so": library})

    report = look_into(env, "ext")

    assert [package.name for package in report.packages] == ["ext-cuda13x"]
    assert not [one for one in report.verdicts if one.anchor == "diagnose-not-installed"]


def test_names_the_mapped_file(env: Env) -> None:
    """A search by LD_LIBRARY_PATH finds another one than the package opens."""
    runtime = env.compile(_RUNTIME, "")
    files: dict[str, bytes | Path] = {
        "ext/__init__.py": _OPENS_OWN.encode(),
        "ext/libext.so": env.extension("", _RUNTIME),
        f"ext/own/{_RUNTIME}": runtime,
    }
    env.install("ext", files)

    [package] = look_into(env, LD_LIBRARY_PATH=str(runtime.parent)).packages

    mapped = env.site / "ext" / "own" / _RUNTIME
    [needs] = [lib.needs for lib in package.libraries if lib.path.name == "libext.so"]
    assert package.loaded == (mapped,)
    assert [found.path for _, found in needs if found] == [mapped]


@pytest.mark.e2e
def test_examines_folder_of_packages_without_commands(env: Env) -> None:
    install_ext(env, "raise ValueError('odd')\n")

    report = look_from(env, env.folder, python=env.site)

    assert failure_of(report).cause == "ValueError: odd"
    assert {one.command for one in report.verdicts} == {""}


def test_reinstalls_no_project_of_the_user(env: Env) -> None:
    install_ext(env, "import dep.part\n")
    (env.site / "dep" / "part.py").unlink()
    [info] = env.site.glob("dep-*.dist-info")
    origin = {"url": env.folder.as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(origin))

    report = look_into(env)

    verdict = verdict_on(report, "diagnose-damaged-installation")
    assert (verdict.command, failure_of(report).command) == ("", "")
    assert f"from where it came: {env.folder.as_uri()}" in verdict.fix


def test_repairs_numba_with_newer_numpy(env: Env) -> None:
    source = b"import numpy\nif numpy.__version__ > '2.1': raise ImportError('Numba needs 2.0')\n"
    cuda = b"def is_available(): return False\n"
    numba: dict[str, bytes | Path] = {"numba/__init__.py": source, "numba/cuda.py": cuda}
    env.install("numpy", {"numpy/__init__.py": b"__version__ = '2.5'\n"}, version="2.5.0")
    env.offer("numpy", {"numpy/__init__.py": b"__version__ = '2.0'\n"}, version="2.0.2")
    env.install("numba", numba, version="0.60.0", requires=("numpy<2.1,>=1.22",))

    report = look_into(env)

    assert failure_of(report, "numba 0.60.0").cause == "ImportError: Numba needs 2.0"
    env.shell(failure_of(report, "numba 0.60.0").command)
    assert look_into(env).verdict in {"ok", "note"}
