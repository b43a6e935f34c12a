"""What is said of NVIDIA's wheels together."""

from __future__ import annotations

from tests.support.diagnosed import CALL_OF_TORCH, Env, look_into, verdict_on


def test_names_mixed_majors(env: Env) -> None:
    env.install_torch()
    env.install("nvidia_cublas_cu12")
    env.install("nvidia_cublas")
    library = env.extension(CALL_OF_TORCH % ("sound()", "sound()"), "libcudart.so.12", "libc10.so")
    lib = env.compile("libcudart.so.12", "")
    env.install("ext", {"ext/libext.so": library, "ext/libcudart.so.12": lib})

    report = look_into(env, LD_LIBRARY_PATH=str(env.site / "ext"))

    found = {one.level: one.what for one in report.verdicts if one.anchor == "diagnose-mixed-cuda"}
    assert found == {
        "warning": "the NVIDIA wheels are for CUDA 12 and 13, torch's is 13.0",
        "broken": "ext 1.2.3 is for CUDA 12, torch for CUDA 13.0",
    }


def test_removes_only_wheels_that_nothing_requires(env: Env) -> None:
    env.install_torch()
    env.install("nvidia_cublas")
    env.install("nvidia_cublas_cu12")
    env.install("nvidia_cudnn_cu12", requires=("nvidia-cublas-cu12",))
    env.install("nvidia_cufft_cu12")
    env.install("other", requires=("nvidia-cufft-cu12",))

    found = verdict_on(look_into(env), "diagnose-mixed-cuda")

    assert found.command.endswith(" nvidia-cublas-cu12 nvidia-cudnn-cu12")
