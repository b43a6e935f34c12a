from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import SmokeError, UsageError
from cuwheel.build.pipeline.stages.smoke import smoke
from cuwheel.build.recipe.recipe import Framework
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.library_choice import LibraryPerCuda
from tests.support.build.smoke_tests import (
    MODULE,
    compile_needing,
    compile_tiny,
    lock_text,
    needs_no_driver,
    save_wheel,
    target_of,
    workspace_of,
)
from tests.support.factories import compile_library, heard, make_job
from tests.support.requirements import require


@pytest.fixture
def lock(shared_cache: Path) -> str:
    return lock_text(shared_cache)


@pytest.fixture
def workspace(tmp_path: Path, shared_cache: Path) -> Workspace:
    return workspace_of(tmp_path, shared_cache)


@pytest.fixture
def target(tmp_path: Path, lock: str) -> Target:
    return target_of(tmp_path, lock)


def failure_of(target: Target, workspace: Workspace, **settings: Any) -> SmokeError:
    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace, **settings))
    return caught.value


def test_takes_cuda_from_the_required_wheel(
    workspace: Workspace, tmp_path: Path, lock: str, cuda_home: Path
) -> None:
    library = compile_tiny(tmp_path, cuda_home, "$ORIGIN/../nvidia/cu13/lib")
    save_wheel(workspace, MODULE, library, requires=("nvidia-cuda-runtime>=13.0,<14",))
    target = target_of(tmp_path, lock, call="tiny_cuda.version()", expect="13000")

    passed = smoke(make_job(target, workspace))

    assert passed.libraries == (("libcudart.so.13", "nvidia/cu13/lib/libcudart.so.13"),)
    assert passed.imported == ("tiny_cuda",)


_NEEDS_OLD_FRAMEWORK = """
from importlib.metadata import version
if version("iniconfig") != "2.0.0":
    raise ImportError("undefined symbol: of another iniconfig")
"""


@pytest.fixture
def stable(tmp_path: Path, lock: str, shared_cache: Path) -> Target:
    """A target with a wheel that serves two releases of a package in place of a framework."""
    framework = Framework(name="iniconfig", version="2.0.0", serves=("2.1.0",))
    target = target_of(tmp_path, lock, framework=framework)
    [other] = target.served
    other.smoke_lock.write_text(lock_text(shared_cache, "iniconfig==2.1.0"))
    return target


def test_tries_each_release_that_the_wheel_serves(workspace: Workspace, stable: Target) -> None:
    save_wheel(workspace, "import iniconfig", requires=("iniconfig>=2.0",))
    passed = smoke(make_job(stable, workspace))
    save_wheel(workspace, _NEEDS_OLD_FRAMEWORK, requires=("iniconfig>=2.0",))

    with pytest.raises(SmokeError, match=r"iniconfig2\.1: the wheel doesn't work") as caught:
        smoke(make_job(stable, workspace))

    assert passed.served == ("iniconfig==2.1.0",)
    assert "the same wheel also works with iniconfig==2.1.0" in heard(workspace)
    assert "of another iniconfig" in caught.value.why


def test_finds_no_cuda_outside(
    workspace: Workspace, tmp_path: Path, target: Target, cuda_home: Path
) -> None:
    """In a sandbox the wheel sees its environment and the system without its CUDA."""
    require("sandbox", "that a wheel finds no library outside of its environment")
    library = compile_tiny(tmp_path, cuda_home, str(cuda_home / "lib"))
    save_wheel(workspace, MODULE, library)

    error = failure_of(target, workspace)

    assert "libcudart.so.13: cannot open shared object file" in error.why


@pytest.mark.parametrize("imported", ["libforeign", "libsound"])
def test_refuses_cuda_from_outside_whichever_process_loads_it(
    workspace: Workspace, tmp_path: Path, lock: str, cuda_home: Path, imported: str
) -> None:
    """Libraries that the import loads, and the others, are checked in two processes."""
    rpaths = {"libforeign": str(cuda_home / "lib"), "libsound": "$ORIGIN/../nvidia/cu13/lib"}
    libraries = []
    for name, rpath in rpaths.items():
        library = compile_tiny(tmp_path, cuda_home, rpath)
        libraries.append(library.rename(library.with_stem(name)))
    module = MODULE.replace("libtiny", imported)
    save_wheel(workspace, module, *libraries, requires=("nvidia-cuda-runtime>=13.0,<14",))

    error = failure_of(target_of(tmp_path, lock), workspace, sandbox="none")

    library_file = (cuda_home / "lib" / "libcudart.so.13").resolve()
    assert f"libcudart.so.13 is {library_file}" in error.why


def test_shows_an_import_failure_and_foreign_libraries_together(
    workspace: Workspace, tmp_path: Path, target: Target, cuda_home: Path
) -> None:
    library = compile_tiny(tmp_path, cuda_home, str(cuda_home / "lib"))
    save_wheel(workspace, f"{MODULE}\nraise RuntimeError('no luck today')\n", library)

    error = failure_of(target, workspace, sandbox="none")

    assert "no luck today" in error.why
    assert "libcudart.so.13 is " in error.why


@pytest.fixture
def scripted(tmp_path: Path, lock: str) -> Target:
    """A target with a smoke test that expects 42."""
    target = target_of(tmp_path, lock, script="tiny_cuda.py")
    script = tmp_path / "recipes" / "smoke" / "tiny_cuda.py"
    script.parent.mkdir(parents=True)
    script.write_text("import tiny_cuda\nfound = tiny_cuda.answer()\nassert found == 42, found\n")
    return target


@pytest.mark.parametrize("answer", [42, 41])
def test_runs_smoke_test_of_the_recipe(answer: int, workspace: Workspace, scripted: Target) -> None:
    save_wheel(workspace, f"def answer(): return {answer}\n", external=("libcublas.so.13",))

    if answer == 42:
        assert smoke(make_job(scripted, workspace)).imported == ("tiny_cuda",)
        assert "importing tiny_cuda didn't load libcublas.so.13" in heard(workspace)
        return
    error = failure_of(scripted, workspace)

    assert 'recipes/smoke/tiny_cuda.py", line 3' in error.why
    assert "AssertionError: 41" in error.why
    assert "correct the package, or its smoke test" in error.fix


def test_sees_what_the_smoke_test_loads(
    workspace: Workspace, tmp_path: Path, scripted: Target, cuda_home: Path
) -> None:
    """Libraries count, and where they come from, as those of imports do."""
    library = compile_tiny(tmp_path, cuda_home, str(cuda_home / "lib64"))
    save_wheel(workspace, "", library)
    assert scripted.smoke_script
    scripted.smoke_script.write_text(
        f"import ctypes\nctypes.CDLL({str(cuda_home / 'lib64/libcudart.so.13')!r})\n"
    )

    error = failure_of(scripted, workspace, sandbox="none")

    assert "libraries were loaded from outside site-packages: libcudart.so.13" in error.why


def test_loads_library_that_the_import_leaves_alone(
    workspace: Workspace, tmp_path: Path, lock: str, cuda_home: Path
) -> None:
    library = compile_tiny(tmp_path, cuda_home, "$ORIGIN/../nvidia/cu13/lib")
    renamed = library.rename(library.with_name("libtiny130.so"))
    save_wheel(workspace, "", renamed, requires=("nvidia-cuda-runtime>=13.0,<14",))
    declared = LibraryPerCuda(file="tiny_cuda/libtiny{toolkit_tag}.so", framework="torch")
    target = target_of(tmp_path, lock, declared)

    passed = smoke(make_job(target, workspace))

    assert passed.libraries == (("libcudart.so.13", "nvidia/cu13/lib/libcudart.so.13"),)


def test_names_each_library_of_the_wheel_and_what_loaded_it(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    source = tmp_path / "any.c"
    source.write_text("int any;\n")
    suffix, foreign = EXTENSION_SUFFIXES[0], ".cpython-39-x86_64-linux-gnu.so"
    names = ("libtiny.so", "librest.so", f"_native{suffix}", f"_native{foreign}")
    libraries = [compile_library(tmp_path / name, "gcc", "-fPIC", source) for name in names]
    save_wheel(workspace, MODULE.replace(".version", ""), *libraries)

    passed = smoke(make_job(target, workspace))

    assert dict(passed.own) == {
        "tiny_cuda/libtiny.so": "loaded by the imports",
        "tiny_cuda/librest.so": "loaded alone",
        f"tiny_cuda/_native{suffix}": "loaded alone",
        f"tiny_cuda/_native{foreign}": "not loaded, because it is for another Python",
    }
    assert "imported tiny_cuda; the wheel's own libraries: " in heard(workspace)
    assert "tiny_cuda/librest.so (loaded alone)" in heard(workspace)


def test_names_each_library_that_cannot_be_loaded(
    workspace: Workspace, tmp_path: Path, lock: str
) -> None:
    """Among them one that the recipe declares, and the wheel doesn't hold."""
    source = tmp_path / "lost.c"
    source.write_text("int nowhere(void); int call(void) { return nowhere(); }\n")
    lost = compile_library(tmp_path / "liblost.so", "gcc", "-fPIC", source)
    first = compile_needing(tmp_path / "libone.so", "libcudart.so.99")
    second = compile_needing(tmp_path / "libtwo.so", "libcublas.so.99")
    save_wheel(workspace, "", first, second, lost)
    declared = LibraryPerCuda(file="tiny_cuda/libtiny{toolkit_tag}.so", framework="torch")

    error = failure_of(target_of(tmp_path, lock), workspace)
    missing = failure_of(target_of(tmp_path, lock, declared), workspace)

    assert "undefined symbol: nowhere" in error.why
    assert "tiny_cuda/libone.so can't be loaded: OSError: libcudart.so.99" in error.why
    assert "tiny_cuda/libtwo.so can't be loaded: OSError: libcublas.so.99" in error.why
    assert "`link`" in error.fix
    assert "tiny_cuda/libtiny130.so: cannot open shared object file" in missing.why


def test_names_missing_library_when_the_package_hides_it(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    library = compile_needing(tmp_path / "libtiny.so", "libcublas.so.99")
    module = "\n".join(("try:", *(f"    {line}" for line in MODULE.strip().splitlines())))
    module += "\nexcept OSError:\n    raise ImportError('no library anywhere') from None\n"
    save_wheel(workspace, module, library)

    error = failure_of(target, workspace)

    assert "ImportError: no library anywhere" in error.why
    assert "tiny_cuda/libtiny.so can't be loaded: OSError: libcublas.so.99" in error.why


def test_lets_library_rely_on_what_the_import_loads(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    library = compile_needing(tmp_path / "libtiny.so", "libbase.so.99")
    base = tmp_path / "beside" / "libbase.so.99"
    module = "import ctypes, pathlib\nctypes.CDLL(str(pathlib.Path(__file__).with_name('{}')))"
    save_wheel(workspace, module.format(base.name), library, base)

    passed = smoke(make_job(target, workspace))

    assert ("tiny_cuda/libtiny.so", "loaded after the imports") in passed.own
    assert "tiny_cuda/libtiny.so loads only after `import tiny_cuda`" in heard(workspace)


def test_names_library_that_waits_for_a_driver(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    needs_no_driver()
    save_wheel(workspace, "", compile_needing(tmp_path / "libtiny.so", "libnvidia-ml.so.1"))

    passed = smoke(make_job(target, workspace))

    assert passed.loaded == ()
    assert passed.own == (
        ("tiny_cuda/libtiny.so", "not loaded, because libnvidia-ml.so.1 is missing"),
    )
    assert (
        "tiny_cuda/libtiny.so needs libnvidia-ml.so.1, which comes with NVIDIA's driver"
        in heard(workspace)
    )


def test_names_wheel_that_is_gone_and_command_that_builds_it(
    workspace: Workspace, target: Target
) -> None:
    with pytest.raises(UsageError, match="no wheel to install") as never:
        smoke(make_job(target, workspace))
    wheel = save_wheel(workspace, "")
    wheel.unlink()

    with pytest.raises(UsageError) as gone:
        smoke(make_job(target, workspace))

    assert "`nox -s build-tiny-cuda-130`" in never.value.fix
    assert f"{wheel} no longer exists" in gone.value.why
