"""Installed files: compared with RECORD, shared, hidden, and left by pip."""

from __future__ import annotations

import json
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from cuwheel.base.formats.wheel.archive import unpack_wheel
from cuwheel.check.diagnose.facts.environment import (
    Distribution,
    PythonEnvironment,
    read_environment,
)
from cuwheel.check.diagnose.facts.installed_files import (
    InstallationFacts,
    Shadow,
    find_faults,
    modules_of,
    read_installation,
)
from cuwheel.check.diagnose.facts.shadows import find_late_shadows, find_shadows
from tests.check.diagnose.samples import make_distribution, make_environment
from tests.support.check.environments import Env
from tests.support.factories import compile_library, write_wheel


@pytest.fixture(scope="module")
def library(module_path: Path) -> bytes:
    source = module_path / "ext.c"
    source.write_text("int ext;\n")
    return compile_library(module_path / "ext.so", "gcc", "-fPIC", source).read_bytes()


@pytest.fixture
def installed(tmp_path: Path, library: bytes) -> Distribution:
    site = tmp_path / "site"
    files = {"ext/__init__.py": b"x = 1\n", "ext/lib/a.so": library, "tests/__init__.py": b""}
    unpack_wheel(write_wheel(tmp_path / "wheels", files, name="ext"), site)
    libraries = (site / "ext" / "lib" / "a.so",)
    return make_distribution(
        "ext", site, metadata=site / "ext-1.2.3.dist-info", libraries=libraries
    )


def test_accepts_whole_distribution(installed: Distribution) -> None:
    assert find_faults(installed, verifies=True) == ()
    assert modules_of(installed) == ("ext",)


@pytest.mark.parametrize(
    ("size", "what", "is_damage"),
    [
        (0, "has 0 bytes", True),
        (1000, "has 1000 bytes", True),
        (10**6, "has 1000000 bytes", False),
        (None, "isn't there", True),
    ],
)
def test_names_library_of_other_size(
    installed: Distribution, library: bytes, size: int | None, what: str, *, is_damage: bool
) -> None:
    [path] = installed.libraries
    if size is None:
        path.unlink()
    else:
        path.write_bytes(library[:size].ljust(size, b"+"))

    [fault] = find_faults(installed, verifies=False)

    assert fault.what.startswith(what)
    assert fault.is_damage is is_damage


def test_names_library_that_the_loader_refuses(installed: Distribution, library: bytes) -> None:
    """As after `strip` of one that patchelf has changed."""
    [path] = installed.libraries
    content = bytearray(library + b"+")
    [header] = [start for start in range(64, 64 + 56 * 2, 56) if content[start] == 1][:1]
    content[header + 16 : header + 32] = struct.pack("<QQ", 8, 8)  # addresses
    path.write_bytes(content)

    [fault] = find_faults(installed, verifies=False)

    assert fault.what.endswith("not page-aligned")
    assert fault.is_damage


@pytest.mark.parametrize("file", ["ext/lib/a.so", "ext/__init__.py"])
def test_names_pointer_of_git_lfs(installed: Distribution, file: str) -> None:
    path = installed.site / file
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")

    [fault] = find_faults(installed, verifies=True)

    assert fault.what.startswith("is a pointer of Git LFS")
    assert fault.is_damage


@pytest.mark.parametrize(
    ("content", "compares", "count"),
    [(b"x = 123\n", True, 1), (b"x = 123\n", False, 0), (b"y = 1\n", True, 0)],
)
def test_names_module_of_other_size(
    installed: Distribution, content: bytes, count: int, *, compares: bool
) -> None:
    (installed.metadata / "INSTALLER").write_text("uv\n")
    (installed.site / "ext/__init__.py").write_bytes(content)

    faults = find_faults(installed, verifies=False, compares=compares)

    assert [fault.is_damage for fault in faults] == [False] * count


@pytest.mark.parametrize(
    ("line", "is_damage"),
    [("    from ext.part import x", True), ("import ext.partial", False), ("# ext.part", False)],
)
def test_names_folder_that_is_gone_and_imported(
    tmp_path: Path, line: str, *, is_damage: bool
) -> None:
    files = {"ext/__init__.py": line.encode(), "ext/part/__init__.py": b"x = 1\n"}
    unpack_wheel(write_wheel(tmp_path / "wheels", files, name="ext"), tmp_path)
    shutil.rmtree(tmp_path / "ext/part")
    metadata = tmp_path / "ext-1.2.3.dist-info"
    (metadata / "INSTALLER").write_text("uv\n")
    own = make_distribution("ext", tmp_path, metadata=metadata)

    first, *_ = find_faults(own, verifies=False)

    assert first.is_damage is is_damage
    assert (first.path.name == "part") is is_damage


def test_names_zeroed_library(installed: Distribution, library: bytes) -> None:
    installed.libraries[0].write_bytes(bytes(len(library)))

    [fault] = find_faults(installed, verifies=False)

    assert (fault.path, fault.is_damage) == (installed.libraries[0], True)


@pytest.mark.parametrize(
    ("file", "content", "is_damage"),
    [
        ("ext/__init__.py", b"x = 2\n", False),
        ("ext/__init__.py", b"", True),
        ("ext/__init__.py", b"x\0\0\0\0\n", True),
        ("ext/lib/a.so", None, True),
    ],
)
def test_verifies_hashes(
    installed: Distribution, file: str, content: bytes | None, *, is_damage: bool
) -> None:
    path = installed.site / file
    path.write_bytes(path.read_bytes()[:-8] + b"+" * 8 if content is None else content)

    [fault] = find_faults(installed, verifies=True)

    assert (fault.path, fault.is_damage) == (path, is_damage)


@pytest.mark.parametrize("is_condas", [False, True])
def test_accepts_what_has_no_hash(installed: Distribution, *, is_condas: bool) -> None:
    if is_condas:
        (installed.metadata / "INSTALLER").write_text("conda\n")
        path = installed.libraries[0]
        path.write_bytes(path.read_bytes() + b"another rpath")
    else:
        (installed.metadata / "RECORD").unlink()

    assert find_faults(installed, verifies=True) == ()


@pytest.mark.parametrize(("installer", "count"), [("", 0), ("pip\n", 1)])
def test_accepts_what_debian_has_stripped(
    tmp_path: Path, library: bytes, installer: str, count: int
) -> None:
    site = tmp_path / "dist-packages"
    unpack_wheel(write_wheel(tmp_path / "wheels", {"ext/a.so": library}, name="ext"), site)
    metadata = site / "ext-1.2.3.dist-info"
    (metadata / "INSTALLER").write_text(installer)
    (site / "ext" / "a.so").write_bytes(library + b"less or more")

    assert (
        len(find_faults(make_distribution("ext", site, metadata=metadata), verifies=False)) == count
    )


def environment_of(env: Env, **variables: str) -> PythonEnvironment:
    return read_environment(env.python, {"PATH": "/usr/bin:/bin", **variables})


def read(env: Env, **variables: str) -> InstallationFacts:
    environment = environment_of(env, **variables)
    installed = tuple(environment.distributions.values())
    return read_installation(environment, installed, installed, ())


def test_names_owner_of_shared_file(env: Env) -> None:
    env.install("first", {"both/a.py": b"1", "both/__init__.py": b"1"})
    env.install("second", {"both/a.py": b"2", "both/__init__.py": b"2"})

    [shared] = read(env).shared

    assert [owner.name for owner in shared.owners] == ["first", "second"]
    assert shared.in_place == "second"


def test_takes_equal_files_and_namespaces_for_no_fault(env: Env) -> None:
    env.install("first", {"both/a.py": b"1", "both/__init__.py": b"1", "tests/a.py": b"1"})
    env.install("second", {"both/a.py": b"1", "both/__init__.py": b"", "tests/a.py": b"2"})

    assert read(env).shared == ()


def test_does_not_judge_shared_library_by_its_size(env: Env) -> None:
    env.install("first", {"both/a.so": b"first"})
    env.install("second", {"both/a.so": b"the second"})

    assert read(env).faults == {}


def shadows_in(env: Env, name: str, start: Path, **variables: str) -> list[Shadow]:
    environment = environment_of(env, **variables)
    return list(find_shadows(environment.distributions[name], environment, start))


def test_finds_what_hides_a_package(env: Env) -> None:
    env.install("ext", {"ext/__init__.py": b"", "tests/__init__.py": b""})
    work = env.folder / "work"
    for folder in ("ext", "tests"):
        (work / folder).mkdir(parents=True)
        (work / folder / "__init__.py").touch()

    [shadow] = shadows_in(env, "ext", env.folder, PYTHONPATH=str(work))

    assert (shadow.module, shadow.path) == ("ext", work / "ext" / "__init__.py")
    assert shadows_in(env, "ext", env.folder) == []


def test_finds_what_hides_a_package_in_the_users_folder(env: Env) -> None:
    env.install("ext", {"ext/__init__.py": b""})
    (env.folder / "ext.py").touch()

    [shadow] = shadows_in(env, "ext", env.folder)

    assert (shadow.path, shadow.is_start) == (env.folder / "ext.py", True)


def test_finds_module_that_hides_a_namespace(env: Env) -> None:
    env.install("ext", {"nvidia/part/lib.so": b""})
    (env.site / "nvidia.py").touch()

    [shadow] = shadows_in(env, "ext", env.folder)

    assert (shadow.module, shadow.path) == ("nvidia", env.site / "nvidia.py")


@pytest.mark.parametrize(("file", "count"), [("_own/part.py", 1), ("_own/__init__.py", 0)])
def test_takes_private_package_for_no_namespace(env: Env, file: str, count: int) -> None:
    """As `_distutils_hack` of a base Python, which comes after the environment's own."""
    env.install("ext", {"ext/__init__.py": b"", file: b""})
    base = env.folder / "base"
    (base / "_own").mkdir(parents=True)
    (base / "_own" / "__init__.py").touch()
    environment = environment_of(env)
    environment = replace(environment, sites=(*environment.sites, base))

    assert len([*find_shadows(environment.distributions["ext"], environment, env.site)]) == count


@pytest.mark.parametrize(("place", "count"), [("user", 1), ("venv", 0)])
def test_finds_package_that_hides_a_namespace(env: Env, place: str, count: int) -> None:
    """In the namespace's own folder `__init__.py` adds to it."""
    env.install("ext", {"nvidia/part/lib.so": b""})
    folder = env.folder / "user" if place == "user" else env.site
    (folder / "nvidia").mkdir(parents=True, exist_ok=True)
    (folder / "nvidia" / "__init__.py").touch()

    assert len(shadows_in(env, "ext", env.folder, PYTHONPATH=str(env.folder / "user"))) == count


def test_takes_only_folders_of_pips_for_leftovers(env: Env) -> None:
    env.install("ext", {"ext/__init__.py": b"", "other/__init__.py": b""})
    work = env.folder / "work"
    for folder in (env.site, work):
        for name in ("~", "~backup", "~xt", "~-t", "~ext"):
            (folder / name).mkdir(parents=True)
    (env.site / "ext-1.2.3.dist-info").rename(env.site / "~xt-1.2.3.dist-info")

    environment = environment_of(env, PYTHONPATH=str(work))

    assert (dict(environment.distributions), environment.damaged) == ({}, ())
    assert {path.parent for path in environment.leftovers} == {env.site}
    names = sorted(path.name for path in environment.leftovers)
    assert names == ["~-t", "~ext", "~xt", "~xt-1.2.3.dist-info"]


@pytest.mark.parametrize("file", ["mine.py", "src/mine/__init__.py", "top_level.txt", ""])
def test_finds_modules_of_editable_project(env: Env, file: str) -> None:
    """Its RECORD names only what leads to its folder."""
    env.install("mine", {"__editable___mine_finder.py": b""})
    folder = env.folder / "project"
    metadata = env.site / "mine-1.2.3.dist-info"
    origin = {"url": folder.as_uri(), "dir_info": {"editable": True}}
    (metadata / "direct_url.json").write_text(json.dumps(origin))
    path = metadata / file if file == "top_level.txt" else folder / (file or "other.py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine\n")

    modules = modules_of(environment_of(env).distributions["mine"])

    assert modules == (("mine",) if file else ())


@pytest.mark.parametrize(("file", "count"), [("nvidia/nvcc/bin/ptxas", 1), ("ext/bin/tool", 0)])
def test_names_lost_program_of_nvidias(tmp_path: Path, file: str, count: int) -> None:
    files = {file: b"x", "ext/__init__.py": b""}
    unpack_wheel(write_wheel(tmp_path / "wheels", files, name="ext"), tmp_path)
    (tmp_path / file).unlink()
    own = make_distribution("ext", tmp_path, metadata=tmp_path / "ext-1.2.3.dist-info")

    assert len(find_faults(own, verifies=False)) == count


@pytest.mark.parametrize(("started", "count"), [(frozenset({"ext"}), 0), (frozenset(), 1)])
def test_hides_nothing_that_python_has_imported_before(
    installed: Distribution, tmp_path: Path, started: frozenset[str], count: int
) -> None:
    (tmp_path / "ext.py").write_text("")
    environment = make_environment(installed)
    environment = replace(environment, sites=(installed.site,), started=started)

    assert len([*find_shadows(installed, environment, tmp_path)]) == count


@pytest.mark.parametrize(
    ("gone", "levels"),
    [
        ("ext/part.py", [True]),
        ("ext/lazy", [False]),
        ("hook.pth", [False]),
        ("ext/part.py, instead its compiled form", []),
        ("ext/tests", []),
        ("ext/test_it.py", []),
        ("ext/types.pyi", []),
        ("ext/include", []),
    ],
)
def test_names_lost_module(tmp_path: Path, gone: str, levels: list[bool]) -> None:
    names = (
        *("__init__.py", "part.py", "lazy/__init__.py", "tests/__init__.py", "tests/data.py"),
        *("test_it.py", "types.pyi", "include/a.h"),
    )
    files = {f"ext/{name}": b"x = 1\n" for name in names} | {"hook.pth": b"# x\n"}
    unpack_wheel(write_wheel(tmp_path / "wheels", files, name="ext"), tmp_path)
    own = make_distribution("ext", tmp_path, metadata=tmp_path / "ext-1.2.3.dist-info")
    path = tmp_path / gone.partition(",")[0]
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if "," in gone:
        path.with_suffix(".pyc").touch()

    assert find_faults(own, verifies=False) == (), "its packager may have left it out"

    (own.metadata / "INSTALLER").write_text("pip\n")
    faults = find_faults(own, verifies=False)
    assert [fault.is_damage for fault in faults] == levels
    assert {fault.what for fault in faults} <= {"isn't there"}


@pytest.mark.parametrize(("machine", "is_other"), [(183, True), (62, False), (190, False)])
def test_names_machine_of_another_library(
    installed: Distribution, monkeypatch: pytest.MonkeyPatch, machine: int, *, is_other: bool
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    path = installed.libraries[0]
    content = bytearray(path.read_bytes())
    content[18:20] = machine.to_bytes(2, "little")
    path.write_bytes(bytes(content) + b"more")

    [fault] = find_faults(installed, verifies=False)

    assert fault.is_damage is is_other
    if is_other:
        assert fault.what == "is built for aarch64, and this machine is x86_64"


@pytest.mark.parametrize(
    ("source", "name", "count"),
    [
        ("def use():\n    import secrets\n", "secrets.py", 1),
        ("def use():\n    from secrets import randbits\n", "secrets.py", 1),
        ("import os, secrets as s\n", "secrets/__init__.py", 1),
        ("from .secrets import mine\n", "secrets.py", 0),
        ('"""import secrets"""\n', "secrets.py", 0),
        ("if TYPE_CHECKING:\n    import secrets\n", "secrets.py", 0),
        ("if __name__ == '__main__':\n    import secrets\n", "secrets.py", 0),
        ("import secrets\n", "mine.py", 0),
        ("import mine\n", "mine.py", 0),
    ],
)
def test_finds_what_hides_python_from_later_imports(
    env: Env, source: str, name: str, count: int
) -> None:
    env.install("ext", {"ext/__init__.py": b"", "ext/part.py": source.encode()})
    work = env.folder / "work" / name
    work.parent.mkdir(parents=True)
    work.touch()
    start = env.folder / "work"
    environment = environment_of(env)
    owners = [environment.distributions["ext"]]

    shadows = list(find_late_shadows(environment, start, owners, ()))

    assert [shadow.user for shadow in shadows] == [env.site / "ext" / "part.py"] * count
    assert list(find_late_shadows(environment, start, owners, ("secrets",))) == []


@pytest.mark.parametrize(
    ("content", "mode", "faults"),
    [
        (b"\x7fELF", 0o644, ["isn't executable"]),
        (b"\x7fELF", 0o755, []),
        (b"TOP = ..", 0o644, []),
    ],
)
def test_names_program_without_permission(
    tmp_path: Path, content: bytes, mode: int, faults: list[str]
) -> None:
    files = {"nvidia/cuda_nvcc/bin/ptxas": content}
    unpack_wheel(write_wheel(tmp_path / "wheels", files, name="ext"), tmp_path)
    (tmp_path / "nvidia/cuda_nvcc/bin/ptxas").chmod(mode)
    own = make_distribution("ext", tmp_path, metadata=tmp_path / "ext-1.2.3.dist-info")

    assert [fault.what for fault in find_faults(own, verifies=False)] == faults


@pytest.mark.parametrize(
    ("user", "header", "count"),
    [
        ("cupy-cuda12x", "include/cuda.h", 1),
        ("torch", "include/cuda.h", 0),
        ("torch", "nvvm/libdevice/libdevice.10.bc", 1),
        ("torch", "bin/ptxas", 1),
    ],
)
def test_names_lost_inputs_of_compilers(tmp_path: Path, user: str, header: str, count: int) -> None:
    name, header = "nvidia-cuda-runtime-cu12", f"nvidia/cuda_runtime/{header}"
    wheel = write_wheel(
        tmp_path / "wheels", {header: b"//"}, name=name.replace("-", "_"), tag="py3-none-any"
    )
    unpack_wheel(wheel, tmp_path)
    metadata = next(tmp_path.glob("*.dist-info"))
    own = make_distribution(name, tmp_path, metadata=metadata)
    environment = make_environment(own, make_distribution(user))
    environment = replace(environment, version="3.11.1", markers={"platform_machine": "x86_64"})
    assert read_installation(environment, (), [own], ()).faults == {}
    (tmp_path / header).unlink()

    facts = read_installation(environment, (), [own], ())

    assert [fault.path.name for fault in facts.faults.get(name, ())] == [
        header.rpartition("/")[2]
    ] * count
