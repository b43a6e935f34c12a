"""What is said of files; the commands are run in tests/e2e/test_diagnose_fixes.py."""

from __future__ import annotations

import json

import pytest

from tests.support.diagnosed import Env, anchors, look_into, verdict_on


def test_names_lost_file_of_nvidia_wheel(env: Env) -> None:
    file = "nvidia/cu13/lib/libcudart.so.13"
    env.install("nvidia_cuda_runtime", {file: b"x"}, version="13.0.96")
    (env.site / file).unlink()

    found = verdict_on(look_into(env), "diagnose-damaged-installation")

    assert found.what == "nvidia-cuda-runtime 13.0.96 is damaged"
    assert found.cause == "libcudart.so.13 isn't there"


def test_sets_damaged_torch_right_before_its_import(env: Env) -> None:
    env.install_torch()
    module = env.site / "torch" / "__init__.py"
    module.write_bytes(module.read_bytes()[:200])

    report = look_into(env)

    failed = verdict_on(report, "diagnose-import-failed")
    assert failed.command.endswith(" --force-reinstall --no-deps torch==2.11.0")
    assert failed.command == verdict_on(report, "diagnose-damaged-installation").command


def test_keeps_what_is_required_of_two_with_the_same_files(env: Env) -> None:
    for cuda in ("12", "13"):
        library = env.compile("libnccl.so.2", f"int nccl_{cuda};")
        env.install(f"nvidia_nccl_cu{cuda}", {"nvidia/nccl/lib/libnccl.so.2": library})
    env.install_torch(requires=("nvidia-nccl-cu12",))

    found = verdict_on(look_into(env), "diagnose-shared-files")

    removed, again = found.command.split(" && ")
    assert removed.endswith(" nvidia-nccl-cu13")
    assert again.endswith(" --force-reinstall --no-deps nvidia-nccl-cu12==1.2.3")


def test_prints_no_command_where_both_are_required(env: Env) -> None:
    for name in ("first", "second"):
        env.install(name, {"both/a.so": env.compile("a.so", f"int {name};")})
    env.install("ext", requires=("first", "second"))

    found = verdict_on(look_into(env), "diagnose-shared-files")

    assert (found.level, found.command) == ("warning", "")


def test_installs_again_what_an_interrupted_removal_took(env: Env) -> None:
    env.install_torch()
    for name in ("torch", "torch-2.11.0.dist-info"):
        (env.site / name).rename(env.site / f"~{name[1:]}")

    report = look_into(env)

    found = verdict_on(report, "diagnose-damaged-installation")
    assert found.what.startswith("an interrupted pip left 2 folders in ")
    assert found.command.endswith(" torch==2.11.0")
    assert report.frameworks == ()


def test_takes_hiding_file_for_no_torch(env: Env) -> None:
    env.install_torch()
    work = env.folder / "work"
    work.mkdir()
    (work / "torch.py").write_text("x = 1\n")

    report = look_into(env, PYTHONPATH=f"{work}:/other")

    found = verdict_on(report, "diagnose-shadowed-module")
    assert found.command == "export PYTHONPATH=/other"
    assert report.frameworks[0].version == "2.11.0+cu130"
    assert "diagnose-import-failed" not in anchors(report)


def test_names_the_folder_of_each_leftover(env: Env) -> None:
    more = env.folder / "more"
    for folder, name in ((env.site, "first"), (more, "second")):
        env.install(name)
        folder.mkdir(exist_ok=True)
        (env.site / f"{name}-1.2.3.dist-info").rename(folder / f"~{name[1:]}-1.2.3.dist-info")

    report = look_into(env, PYTHONPATH=str(more))

    found = [one for one in report.verdicts if one.anchor == "diagnose-damaged-installation"]
    assert {one.what.rpartition(" in ")[2] for one in found} == {str(env.site), str(more)}
    for one in found:
        assert one.command.startswith(f"rm -r '{one.what.rpartition(' in ')[2]}/~")


def test_takes_no_newer_release_back_for_a_leftover(env: Env) -> None:
    env.install("MarkupSafe", version="2.0.0")
    (env.site / "MarkupSafe-2.0.0.dist-info").rename(env.site / "~arkupSafe-2.0.0.dist-info")
    env.install("markupsafe", version="3.0.0")

    found = verdict_on(look_into(env), "diagnose-damaged-installation")

    assert found.fix == "remove them"
    assert found.command == f"rm -r '{env.site / '~arkupSafe-2.0.0.dist-info'}'"


@pytest.mark.parametrize("origin", ["", "file:///w/t.whl"])
def test_installs_leftover_of_local_version_only_from_where_it_came(env: Env, origin: str) -> None:
    env.install("ext", version="2.11.0+cu128")
    left = env.site / "~xt-2.11.0+cu128.dist-info"
    (env.site / "ext-2.11.0+cu128.dist-info").rename(left)
    if origin:
        (left / "direct_url.json").write_text(json.dumps({"url": origin, "archive_info": {}}))

    found = verdict_on(look_into(env), "diagnose-damaged-installation")

    assert found.command.endswith(f" 'ext @ {origin}'" if origin else "")
    assert bool(found.command) == bool(origin)
    assert found.fix.endswith("again" if origin else "again, from its original source")


def test_says_which_of_three_with_the_same_files_goes(env: Env) -> None:
    for name in ("first", "second", "third"):
        env.install(name, {"both/a.so": env.compile("a.so", f"int {name};")})
    env.install_torch(requires=("second",))
    (env.site / "both" / "a.so").write_bytes(b"none of theirs")

    found = verdict_on(look_into(env), "diagnose-shared-files")

    assert found.what == "first 1.2.3, second 1.2.3 and third 1.2.3 share files"
    assert found.cause.endswith("; the installed file is none of theirs")
    assert found.fix.startswith("remove the others, ")
    assert " first third && " in found.command


def test_removes_none_of_three_where_two_are_required(env: Env) -> None:
    for name in ("first", "second", "third"):
        env.install(name, {"both/a.so": env.compile("a.so", f"int {name};")})
    env.install_torch(requires=("first", "second"))

    found = verdict_on(look_into(env), "diagnose-shared-files")

    assert found.command == ""
    assert found.fix.startswith("torch requires first; torch requires second: use a separate ")
