"""What is said of files; the commands are run in tests/e2e/test_diagnose_fixes.py."""

from __future__ import annotations

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
    assert found.what.startswith("an interrupted pip has left 2 folders in ")
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
