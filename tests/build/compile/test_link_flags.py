from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from cuwheel.base.errors import PreflightError
from cuwheel.build.compile.link_flags import check_linkable, include_flags, link_flags
from cuwheel.build.recipe.link import Link, Static
from cuwheel.build.recipe.recipe import Framework, Setuptools
from cuwheel.build.workspace.records import Environment, Toolchain
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import compile_library, make_job, make_target, make_workspace

_LINKS_RUNTIME = (
    "#include <cuda_runtime_api.h>\nint f(void) { int v; return cudaRuntimeGetVersion(&v); }\n"
)
_STUBS = Path("/view/lib64/stubs")
_WITH_FLAGS = Setuptools(env={"FLAGS": "{link_flags}"})


def make_wheel_folder(site: Path) -> Path:
    """Site-packages with cuTensorNet's library and headers, as its wheel puts them."""
    library = site / "cuquantum" / "lib" / "libcutensornet.so.2"
    library.parent.mkdir(parents=True)
    library.touch()
    return library.parent


def make_made_space(folder: Path, home: Path) -> Workspace:
    workspace = make_workspace(folder)
    record = Toolchain(home=home, version="13.0.88", provider="pypi", fingerprint="", pinned=True)
    workspace.save("toolchain", record)
    environment = Environment(
        python=folder, site_packages=folder, fingerprint="", base_python=folder, base_version=""
    )
    workspace.save("environment", environment)
    return workspace


@pytest.mark.parametrize("mode", [None, Static()])
def test_flags_link_the_runtime(tmp_path: Path, cuda_home: Path, mode: Static | None) -> None:
    target = make_target(link=Link("cudart"), mode=mode)
    source = tmp_path / "f.c"
    source.write_text(_LINKS_RUNTIME)

    flags = (
        *include_flags(target, cuda_home, tmp_path),
        *link_flags(target, cuda_home, tmp_path, _STUBS),
    )
    record = compile_library(
        tmp_path / "libf.so", "gcc", "-fPIC", source, *flags, "-Wl,-z,defs", "-lstdc++"
    )

    assert record.is_file()


def test_names_library_as_toolchain_has_it(tmp_path: Path) -> None:
    target = make_target(link=Link("cudart", "cufft"))
    libraries = tmp_path / "home" / "lib64"
    libraries.mkdir(parents=True)
    for name in ("libcudart.so.13", "libcufft.so.12"):
        (libraries / name).touch()

    flags = link_flags(target, libraries.parent, tmp_path, _STUBS)

    assert flags == (f"-L{libraries}", "-l:libcudart.so.13", "-l:libcufft.so.12")


@pytest.mark.parametrize("mode", [None, Static()])
def test_links_driver_in_every_mode(tmp_path: Path, cuda_home: Path, mode: Static | None) -> None:
    target = make_target(link=Link("driver", "cudart"), mode=mode)

    flags = link_flags(target, cuda_home, tmp_path, _STUBS)

    assert " ".join((f"-L{_STUBS}", "-lcuda")) in " ".join(flags)


def test_leads_to_library_that_no_toolkit_has(tmp_path: Path, cuda_home: Path) -> None:
    folder = make_wheel_folder(tmp_path)
    target = make_target(link=Link("cutensornet"))

    flags = (
        *link_flags(target, cuda_home, tmp_path, _STUBS),
        *include_flags(target, cuda_home, tmp_path),
    )

    headers = (f"-I{cuda_home}/include", f"-I{tmp_path}/cuquantum/include")
    assert flags == (f"-L{folder}", "-l:libcutensornet.so.2", *headers)


def test_leaves_framework_to_its_build(tmp_path: Path, cuda_home: Path) -> None:
    framework = Framework(name="torch", version="2.11.0")
    target = make_target(link=Link("cudart", "torch"), framework=framework)

    assert "torch" not in shlex.join(link_flags(target, cuda_home, tmp_path, _STUBS))


def test_finds_library_that_is_nowhere(tmp_path: Path, cuda_home: Path) -> None:
    workspace = make_made_space(tmp_path, cuda_home)
    target = make_target(link=Link("cudart", "cutensornet"), build=_WITH_FLAGS)

    with pytest.raises(PreflightError) as caught:
        check_linkable(make_job(target, workspace))

    assert caught.value.what == "libcutensornet.so.2 was not found"
    assert "add cutensornet-cu13 to `requires` in recipes/tiny_cuda.py" in caught.value.fix


def test_does_not_look_for_libraries_without_flags(tmp_path: Path, cuda_home: Path) -> None:
    workspace = make_made_space(tmp_path, cuda_home)

    check_linkable(make_job(make_target(link=Link("cutensornet")), workspace))


def test_finds_component_without_archive(tmp_path: Path, cuda_home: Path) -> None:
    workspace = make_made_space(tmp_path, cuda_home)
    target = make_target(link=Link("cudart", "cufft"), mode=Static())

    with pytest.raises(PreflightError) as caught:
        check_linkable(make_job(target, workspace))

    assert caught.value.what == "cufft can't be linked statically"


def test_knows_before_the_toolchain_what_wheels_lack(tmp_path: Path) -> None:
    target = make_target(link=Link("cudart", "cufft"), mode=Static())

    with pytest.raises(PreflightError) as caught:
        check_linkable(make_job(target, make_workspace(tmp_path)))

    assert caught.value.what == "cufft can't be linked statically"
    assert caught.value.why.startswith("a toolchain of pypi has no static library of it")


@pytest.mark.parametrize(
    ("names", "provider"), [(("cudart",), "pypi"), (("cudart", "cufft"), "conda")]
)
def test_waits_for_toolchain(tmp_path: Path, names: tuple[str, ...], provider: str) -> None:
    target = make_target(link=Link(*names), mode=Static(), provider=provider)

    check_linkable(make_job(target, make_workspace(tmp_path)))
