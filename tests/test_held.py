"""Each module has a test of its own name, or stands here with the test that holds it."""

from __future__ import annotations

from pathlib import Path

from cuwheel.paths import ROOT

HELD_BY = {
    "attest/envelope": "attest/test_check",
    "attest/verification": "attest/test_check",
    "audit/contract": "stages/test_audit",
    "binaries/cubin": "verify/compare/test_device",
    "binaries/device_code": "verify/compare/test_device",
    "binaries/elf_image": "binaries/test_elf",
    "binaries/ptx": "verify/compare/test_wheel_cuda",
    "build/checks": "build/test_early_check",
    "build/compile_cache/device_code": "e2e/test_arm64",
    "build/launcher_setup": "stages/test_build",
    "build/machine": "build/test_early_check",
    "build/run_state": "test_pipeline",
    "cli/commands/build/matrix": "matrix/test_building",
    "cli/commands/build/nightly": "nightly/test_session",
    "cli/commands/maintain/docs": "cli/reference/test_write",
    "cli/commands/maintain/mirror": "e2e/test_mirror",
    "cli/commands/maintain/new": "cli/commands/maintain/test_updates",
    "cli/commands/maintain/toolchain": "cli/test_dispatch",
    "cli/commands/maintain/torch_symbols": "updates/test_torch_symbols",
    "cli/commands/own/help": "test_package",
    "cli/reference/completions": "cli/commands/own/test_completion",
    "cli/commands/report/audit": "audit/test_session",
    "cli/commands/report/diagnose": "diagnose/test_session",
    "cli/commands/target/perf": "cli/test_measuring",
    "cli/commands/target/profile": "e2e/test_verify",
    "cli/commands/target/smoke": "cli/test_dispatch",
    "cli/reference/addresses": "test_conventions",
    "cli/reference/index_check_page": "cli/reference/test_write",
    "cli/reference/json_schema": "cli/reference/test_schemas",
    "cli/reference/options_page": "cli/reference/test_write",
    "cli/reference/pages": "cli/reference/test_write",
    "cli/reference/recipe_page": "cli/reference/test_write",
    "cli/reference/toolkits_page": "cli/reference/test_write",
    "cli/reference/troubleshooting": "cli/reference/test_write",
    "cli/target_choice": "cli/test_dispatch",
    "cli/target_jobs": "cli/commands/build/test_build",
    "cli/target_options": "cli/commands/build/test_build",
    "conda/conda_lock_process": "conda/test_write",
    "conda/link_process": "conda/test_install",
    "conda/records": "conda/test_lock_document",
    "containers/refusals": "containers/test_engine",
    "cuda/foreign_wheels": "cuda/test_components",
    "cuda/nvidia_wheels": "cuda/test_components",
    "diagnose/document": "diagnose/test_report",
    "diagnose/environment_diagnosis": "diagnose/test_session",
    "diagnose/facts/host": "diagnose/test_session",
    "diagnose/facts/probe": "diagnose/facts/test_imports",
    "diagnose/verdict": "diagnose/test_report",
    "drafts/build_choice": "drafts/test_choices",
    "drafts/draft": "drafts/test_render",
    "drafts/readers/finding": "drafts/readers/test_setup_py",
    "drafts/report": "drafts/test_session",
    "drafts/requirement_choice": "drafts/test_choices",
    "drafts/target_choice": "drafts/test_choices",
    "explain/report": "explain/test_explanation",
    "explain/scanner": "explain/test_explanation",
    "explain/session": "cli/commands/report/test_explain",
    "fetch/download": "fetch/test_store",
    "fetch/git_pack": "fetch/test_git",
    "index/check/file_rules": "index/check/test_session",
    "index/check/index_walk": "index/check/test_session",
    "index/check/reading": "index/check/test_session",
    "index/check/result": "index/check/test_report",
    "index/check/rules": "index/check/test_session",
    "install/environment": "install/test_session",
    "install/trial": "install/test_session",
    "locks/mirror_folder": "locks/test_mirror",
    "matrix/executor": "matrix/test_slurm_executor",
    "matrix/page": "matrix/test_building",
    "matrix/slurm_submission": "matrix/test_slurm_executor",
    "model/link": "model/test_recipe_check",
    "model/recipe_texts": "model/test_recipe_check",
    "model/source": "model/test_recipe_check",
    "model/source_check": "model/test_recipe_check",
    "nightly/record": "nightly/test_folders",
    "perf/package": "perf/test_session",
    "perf/report/figures": "perf/report/test_table",
    "perf/report/history": "perf/report/test_page",
    "perf/report/picture": "perf/report/test_page",
    "perf/request": "perf/test_session",
    "perf/rounds": "perf/test_session",
    "perf/worker": "perf/test_session",
    "pick/document": "pick/test_report",
    "pick/reason": "pick/test_fit",
    "pick/session": "cli/commands/report/test_pick",
    "pick/statement": "pick/test_fit",
    "pypi/build_requirements": "stages/test_preflight",
    "pypi/pages": "pypi/test_indexes",
    "pypi/wheel_selection": "locks/test_mirror",
    "smoke/emulated": "e2e/test_smoke_arm64",
    "sources/checkouts": "verify/test_worktrees",
    "stages/provenance": "test_pipeline",
    "stages/toolchain": "test_pipeline",
    "standalone/event_log": "standalone/launcher/test_launch",
    "standalone/launcher/device_bitcode": "standalone/launcher/test_device_code",
    "standalone/launcher/device_command": "standalone/launcher/test_device_code",
    "standalone/launcher/device_store": "standalone/launcher/test_device_code",
    "standalone/launcher/kept_files": "standalone/launcher/test_direct_mode",
    "standalone/launcher/cache_server": "build/compile_cache/test_backends",
    "standalone/memory_gate/child": "standalone/memory_gate/test_gate",
    "standalone/memory_gate/service_client": "build/launcher/test_memory_service",
    "standalone/namespaces/hide": "smoke/test_hide_cuda",
    "standalone/perf/frameworks": "perf/test_session",
    "standalone/perf/gpu_driver": "perf/test_session",
    "standalone/perf/kernel_reader": "perf/test_session",
    "standalone/perf/perf_case": "perf/test_session",
    "standalone/perf/worker": "perf/test_session",
    "standalone/probes/backend": "build/test_requirements",
    "standalone/probes/driver": "diagnose/facts/test_gpus",
    "standalone/probes/environment": "diagnose/facts/test_environment",
    "standalone/probes/smoke": "smoke/test_probe",
    "standalone/signing/bundles": "attest/test_sigstore",
    "system/console": "system/output/test_github",
    "system/in_use": "cache/test_pruning",
    "system/output/terminal": "system/output/test_live",
    "system/versions": "diagnose/rules/test_target_fit",
    "toolchains/cuda_home": "toolchains/test_provide",
    "toolchains/host_compiler": "stages/test_preflight",
    "toolchains/pypi": "toolchains/test_provide",
    "toolchains/python_choice": "toolchains/test_conda",
    "toolchains/system_programs": "build/test_environment",
    "under_nox": "test_noxfile",
    "updates/report": "updates/test_outdated",
    "verify/compare/cubin": "verify/compare/test_wheel_cuda",
    "verify/compare/differences": "verify/compare/test_report",
    "verify/compare/ptx": "verify/compare/test_wheel_cuda",
    "verify/document": "verify/test_session",
    "verify/rebuilding": "e2e/test_rebuild",
    "version": "build/test_rebuild_key",
    "workspace/failure_record": "matrix/test_state",
    "workspace/job": "build/compile_cache/test_choice",
    "workspace/problems": "stages/test_preflight",
    "workspace/records": "workspace/test_workspace",
}


def modules_without_own_test() -> set[str]:
    modules = [
        path.relative_to(ROOT / "cuwheel").with_suffix("")
        for path in (ROOT / "cuwheel").rglob("*.py")
        if not path.stem.startswith("__") and "starter" not in path.parts
    ]
    return {
        module.as_posix()
        for module in modules
        if not (ROOT / "tests" / module.parent / f"test_{module.name}.py").exists()
    }


def test_every_module_is_held_by_a_test() -> None:
    assert modules_without_own_test() == set(HELD_BY)


def test_tests_that_hold_modules_are_there() -> None:
    tests = {Path(test) for test in HELD_BY.values()}

    assert [test for test in tests if not (ROOT / "tests" / f"{test}.py").exists()] == []
