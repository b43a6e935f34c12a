"""Which installed packages have to do with GPUs, and what their libraries are."""

from __future__ import annotations

from tests.support.diagnosed import Env, look_into, verdict_on


def test_names_truncated_library(env: Env) -> None:
    whole = env.extension("", "libcudart.so.12").read_bytes()
    env.install("ext", {"ext/libext.so": whole[: len(whole) // 3]})

    found = verdict_on(look_into(env, "ext"), "diagnose-damaged-installation")

    assert found.what == "libext.so of ext 1.2.3 can't be read"


def test_names_extension_for_other_python(env: Env) -> None:
    code = 'extern "C" void PyInit_ext() {}'
    name = "ext.cpython-38-x86_64-linux-gnu.so"
    env.install("ext", {name: env.extension(code, "libcuda.so.1")})

    found = verdict_on(look_into(env), "python-version-unsupported")

    assert found.cause == name


def test_passes_over_packages_without_gpu(env: Env) -> None:
    env.install("plain", {"plain/libplain.so": env.compile("libplain.so", "")})

    assert look_into(env).packages == ()
