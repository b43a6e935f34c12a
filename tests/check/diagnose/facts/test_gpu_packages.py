"""Facts of installed GPU packages, and of the symbols that they lack."""

from __future__ import annotations

import pytest

from cuwheel.check.diagnose.facts.library_pairs import find_lacking
from cuwheel.check.diagnose.rules.frameworks import judge_pairs
from cuwheel.check.linkage.installed_loader import InstalledLoader
from tests.check.diagnose.samples import make_context, make_distribution
from tests.support.check.environments import CALL_OF_TORCH, Env, look_into, verdict_on


def test_names_truncated_library(env: Env) -> None:
    whole = env.extension("", "libcudart.so.12").read_bytes()
    env.install("ext", {"ext/libext.so": whole[: len(whole) // 3]})

    verdict = verdict_on(look_into(env, "ext"), "diagnose-damaged-installation")

    assert verdict.what.startswith("libext.so of ext 1.2.3 ")


def test_names_extension_for_other_python(env: Env) -> None:
    code = 'extern "C" void PyInit_ext() {}'
    name = "ext.cpython-38-x86_64-linux-gnu.so"
    env.install("ext", {name: env.extension(code, "libcuda.so.1")})

    verdict = verdict_on(look_into(env), "python-version-unsupported")

    assert verdict.cause.startswith(f"{name}; its import ends with ModuleNotFoundError")


def test_passes_over_packages_without_gpu(env: Env) -> None:
    env.install("plain", {"plain/libplain.so": env.compile("libplain.so", "")})

    assert look_into(env).packages == ()


def test_names_extension_for_other_torch(env: Env) -> None:
    env.install_torch()
    library = env.extension(CALL_OF_TORCH % ("gone(int)", "gone(1)"))
    env.install("ext", {"ext/libext.so": library}, version="1.0+cu130torch2.4")

    verdict = verdict_on(look_into(env, "ext"), "torch-abi-mismatch")

    assert verdict.level == "broken"
    assert "needs c10::gone" in verdict.cause
    assert "for torch 2.4" in verdict.cause


def test_names_extension_with_other_string_abi(env: Env) -> None:
    text = "#include <string>\nnamespace c10 {{ void show(const std::string &{}; }} {}"
    env.install_torch(code=text.format(")", "void c10::show(const std::string &) {}"))
    old = "#define _GLIBCXX_USE_CXX11_ABI 0\n" + text.format(")", 'void use() { c10::show(""); }')
    env.install("ext", {"ext/libext.so": env.extension(old)})

    verdict = verdict_on(look_into(env, "ext"), "cxx11-abi-mismatch")

    assert "c10::show" in verdict.cause
    assert "cxx11abiTRUE" in verdict.fix


@pytest.mark.parametrize(
    ("function", "place", "command"),
    [
        ("__nvJitLinkNew_12_9", "", "pip install 'nvidia-nvjitlink-cu12>12.1,<13'"),
        ("__nvJitLinkNew_12_9", "old", "unset LD_LIBRARY_PATH"),
        ("__nvJitLinkNew_12_1", "", None),
        ("other", "", None),
    ],
)
def test_names_library_that_lacks_what_another_needs(
    env: Env, function: str, place: str, command: str | None
) -> None:
    old = env.compile("libnvJitLink.so.12", 'extern "C" void __nvJitLinkNew_12_1() {}')
    code = f'extern "C" void {function}(); void use() {{ {function}(); }}'
    folder = old.parent / place
    flags = ("-Wl,--no-as-needed", old, f"-Wl,-rpath,{old.parent}")
    user = env.compile("libcusparse.so.12", code, *flags)
    if place:
        folder.mkdir()
        old = old.rename(folder / old.name)
    parts = {"nvidia-cusparse-cu12": (user,), "nvidia-nvjitlink-cu12": () if place else (old,)}
    wheels = [make_distribution(one, version="12.1", libraries=of) for one, of in parts.items()]
    environ = {"LD_LIBRARY_PATH": str(folder)} if place else {}
    context = make_context(*wheels, environ=environ)
    loader = InstalledLoader(
        library_path=environ.get("LD_LIBRARY_PATH", ""),
        owners={path: own.title for own in wheels for path in own.libraries},
        preloaded={},
        cache={},
    )

    pairs = dict(zip([wheels[0].name], find_lacking(wheels[0], loader), strict=False))

    commands = [one.command for one in judge_pairs(context, pairs).values()]
    assert len(commands) == (command is not None)
    assert all(one.endswith(str(command)) for one in commands)
