"""Verdicts on installed files; tests/e2e/check/test_diagnose_fixes.py runs their commands."""

from __future__ import annotations

import pytest

from tests.support.check.environments import Env, anchors, look_into, verdict_on


def test_names_lost_file_of_nvidia_wheel(env: Env) -> None:
    file = "nvidia/cu13/lib/libcudart.so.13"
    env.install("nvidia_cuda_runtime", {file: b"x"}, version="13.0.96")
    (env.site / file).unlink()

    verdict = verdict_on(look_into(env), "diagnose-damaged-installation")

    assert verdict.level == "broken"
    assert verdict.cause == "libcudart.so.13 isn't there"


def test_takes_hiding_file_for_no_torch(env: Env) -> None:
    env.install_torch()
    work = env.folder / "work"
    work.mkdir()
    (work / "torch.py").write_text("x = 1\n")

    report = look_into(env, PYTHONPATH=f"{work}:/other")

    verdict = verdict_on(report, "diagnose-shadowed-module")
    assert verdict.command == "export PYTHONPATH=/other"
    assert report.environment.frameworks[0].version == "2.11.0+cu130"
    assert "diagnose-import-failed" not in anchors(report)


def test_names_the_folder_of_each_leftover(env: Env) -> None:
    more = env.folder / "more"
    for folder, name in ((env.site, "first"), (more, "second")):
        env.install(name)
        folder.mkdir(exist_ok=True)
        env.install(name, version="2")
        (env.site / f"{name}-1.2.3.dist-info").rename(folder / f"~{name[1:]}-1.2.3.dist-info")

    report = look_into(env, PYTHONPATH=str(more))

    damaged = "diagnose-damaged-installation"
    verdicts = [verdict for verdict in report.verdicts if verdict.anchor == damaged]
    folders = {verdict.what.rpartition(" in ")[2]: verdict for verdict in verdicts}
    assert set(folders) == {str(env.site), str(more)}
    for site, verdict in folders.items():
        assert verdict.command.startswith(f"rm -r '{site}/~")


def install_sharing(env: Env, *names: str) -> None:
    """Install packages that have another library in the same place."""
    for name in names:
        env.install(name, {"both/a.so": env.compile("a.so", f"int {name};")})


def test_names_which_of_three_with_the_same_files_goes(env: Env) -> None:
    install_sharing(env, "first", "second", "third")
    env.install_torch(requires=("second",))
    (env.site / "both" / "a.so").write_bytes(b"none of theirs")

    verdict = verdict_on(look_into(env), "diagnose-shared-files")

    assert verdict.what.startswith("first 1.2.3, second 1.2.3 and third 1.2.3 ")
    assert verdict.cause.endswith("none of theirs")
    assert " first third && " in verdict.command


@pytest.mark.parametrize("names", [("first", "second"), ("first", "second", "third")])
def test_removes_none_where_two_are_required(env: Env, names: tuple[str, ...]) -> None:
    install_sharing(env, *names)
    env.install_torch(requires=("first", "second"))

    verdict = verdict_on(look_into(env), "diagnose-shared-files")

    assert (verdict.level, verdict.command) == ("warning", "")
    assert verdict.fix.startswith("torch requires first; torch requires second: ")


def test_installs_again_what_only_a_leftover_has(env: Env) -> None:
    env.offer("first")
    env.install("first", {"first/__init__.py": b""})
    (env.site / "first-1.2.3.dist-info").rename(env.site / "~irst-1.2.3.dist-info")
    (env.site / "first").rename(env.site / "~irst")

    verdict = verdict_on(look_into(env), "diagnose-damaged-installation")

    assert verdict.level == "broken"
    assert verdict.what.startswith("first 1.2.3 isn't installed any more: ")
    env.shell(verdict.command)
    assert anchors(look_into(env)) == {"no-cuda-device"}
    assert not [*env.site.glob("~*")]


@pytest.mark.parametrize(("line", "is_lost"), [("#!/gone/bin/python3", True), ("#!{}", False)])
def test_names_programs_of_a_moved_environment(env: Env, line: str, *, is_lost: bool) -> None:
    (env.python.parent / "prog").write_text(f"{line.format(env.python)}\nx = 1\n")

    whats = [one.what for one in look_into(env).verdicts]

    assert ("1 program of the environment can't be started" in whats) == is_lost


@pytest.mark.parametrize(("other", "is_hidden"), [("mod", True), ("mod2", False)])
def test_names_folder_that_hides_a_module(env: Env, other: str, *, is_hidden: bool) -> None:
    env.install("nvidia_ml_py", {"mod.py": b""})
    env.install("other", {f"{other}/__init__.py": b""})

    found = [one for one in look_into(env).verdicts if one.anchor == "diagnose-shadowed-module"]

    assert [one.what for one in found] == ["other 1.2.3 hides nvidia-ml-py 1.2.3"] * is_hidden


def test_names_a_file_that_hides_several_packages_once(env: Env) -> None:
    for name in ("nvidia_cublas", "nvidia_cufft"):
        env.install(name, {f"nvidia/{name}/x.py": b""})
    work = env.folder / "work"
    work.mkdir()
    (work / "nvidia.py").write_text("")

    verdict = verdict_on(look_into(env, PYTHONPATH=str(work)), "diagnose-shadowed-module")

    assert verdict.what.endswith(" and 1 more package")


@pytest.mark.parametrize(
    ("base", "command"), [("user", "export PYTHONNOUSERSITE=1"), ("other", "rm {}")]
)
def test_keeps_python_from_the_users_folder(env: Env, base: str, command: str) -> None:
    env.install_torch()
    env.install("numpy", version="2")
    env.install("ext", {"ext/__init__.py": b"import numpy, torch"}, requires=("numpy<3", "torch"))
    user = env.folder / "user" / "lib" / "site-packages"
    env.install("numpy", version="3")
    user.mkdir(parents=True)
    (env.site / "numpy-3.dist-info").rename(user / "numpy-3.dist-info")
    (env.site / "first.pth").write_text(f"import sys; sys.path.insert(0, {str(user)!r})\n")

    report = look_into(env, "ext", PYTHONUSERBASE=str(env.folder / base))

    [verdict] = [one for one in report.verdicts if one.what == "numpy is installed twice"]
    assert verdict.command == command.format(env.site / "first.pth")


@pytest.mark.parametrize("is_required", [False, True])
def test_names_owner_of_what_hides_a_namespace(env: Env, *, is_required: bool) -> None:
    env.install("nvidia_part", {"nvidia/part/a.so": env.compile("a.so", "int a;")})
    env.install("other", {"nvidia.py": b""})
    if is_required:
        env.install("user", requires=("other",))

    verdict = verdict_on(look_into(env), "diagnose-shadowed-module")

    assert f"nvidia.py and the folder nvidia are in {env.site}" in verdict.cause
    assert "PYTHONPATH" not in verdict.fix
    assert ("uninstall other 1.2.3" in verdict.fix) != is_required
    assert bool(verdict.command) != is_required


def test_names_startup_file_that_puts_a_folder_first(env: Env) -> None:
    env.install_torch()
    work = env.folder / "work"
    work.mkdir()
    (work / "torch.py").write_text("x = 1\n")
    line = f"import sys; sys.path.insert(0, {str(work)!r})\n"
    (env.site / "first.pth").write_text(line)

    verdict = verdict_on(look_into(env), "diagnose-shadowed-module")

    assert str(env.site / "first.pth") in verdict.fix
    assert "PYTHONPATH" not in verdict.fix


@pytest.mark.parametrize(("has_libs", "commands"), [(True, 1), (False, 2)])
def test_names_lacking_libraries_of_damaged_bindings(
    env: Env, commands: int, *, has_libs: bool
) -> None:
    """TensorRT's twin was removed, and shared its files; none requires the wheel with libraries."""
    name = "tensorrt_bindings/tensorrt.so"
    env.install("tensorrt_cu12_bindings", {name: env.compile("tensorrt.so", "")})
    if has_libs:
        env.install("tensorrt_cu12_libs")
    (env.site / name).unlink()

    verdict = verdict_on(look_into(env), "diagnose-damaged-installation")

    assert verdict.command.count(" install ") == commands
    assert verdict.command.endswith("tensorrt-cu12-libs==1.2.3") != has_libs


@pytest.mark.parametrize(("name", "level"), [("y", "broken"), ("x", "warning")])
def test_imports_modules_of_another_release(env: Env, name: str, level: str) -> None:
    part = {"ext/part/__init__.py": b"from .a import x", "ext/part/a.py": b""}
    env.install("ext", {"ext/__init__.py": b"", **part})
    (env.site / "ext-1.2.3.dist-info" / "INSTALLER").write_text("pip\n")
    (env.site / "ext/part/a.py").write_text(f"{name} = 1\n")

    report = look_into(env, "ext")

    verdict = verdict_on(report, "diagnose-damaged-installation")
    assert verdict.level == level
    assert ("the import of ext.part fails: ImportError" in verdict.cause) == (level == "broken")
