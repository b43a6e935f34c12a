"""What an extension expects of PyTorch and PyTorch hasn't."""

from __future__ import annotations

from tests.support.diagnosed import CALL_OF_TORCH, Env, look_into, verdict_on


def test_names_extension_for_other_torch(env: Env) -> None:
    env.install_torch()
    library = env.extension(CALL_OF_TORCH % ("gone(int)", "gone(1)"))
    env.install("ext", {"ext/libext.so": library}, version="1.0+cu130torch2.4")

    found = verdict_on(look_into(env, "ext"), "torch-abi-mismatch")

    assert found.level == "broken"
    assert "needs c10::gone, which torch 2.11.0+cu130 doesn't have" in found.cause
    assert "built for torch 2.4" in found.cause


def test_names_extension_with_other_string_abi(env: Env) -> None:
    text = "#include <string>\nnamespace c10 {{ void say(const std::string &{}; }} {}"
    env.install_torch(code=text.format(")", "void c10::say(const std::string &) {}"))
    old = "#define _GLIBCXX_USE_CXX11_ABI 0\n" + text.format(")", 'void use() { c10::say(""); }')
    env.install("ext", {"ext/libext.so": env.extension(old)})

    found = verdict_on(look_into(env, "ext"), "cxx11-abi-mismatch")

    assert "c10::say" in found.cause
    assert "cxx11abiTRUE" in found.fix
