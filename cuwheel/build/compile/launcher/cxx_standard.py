"""The C++ standard of a compile, raised to the oldest one that the recipe lets through.

So what a package's own build sets is changed without a patch, whatever its build system is.
"""

from __future__ import annotations

from cuwheel.build.compile.launcher.command_line import Word

# GCC's manual, "Options Controlling C Dialect", and nvcc --help; the oldest first. A standard that
# wasn't out yet has a name with a letter.
_NAMES = ("98", "03", "0x", "11", "1y", "14", "1z", "17", "2a", "20")
_DIALECTS = ("c++", "gnu++")
_OPTIONS = ("-std", "--std")
_HOST_OPTIONS = ("-Xcompiler", "--compiler-options")
_CXX_SUFFIXES = (".cc", ".cp", ".cpp", ".CPP", ".cxx", ".c++", ".C", ".ii")


def raise_nvcc_standard(read: list[Word], sources: list[str], standard: str) -> list[Word]:
    """Return nvcc's words with an older standard replaced, and with one where there is none."""
    if not standard:
        return read
    words = []
    for word in read:
        if word.name in _OPTIONS:
            words.append(word.with_value(_raised(f"std={word.value}", standard)[len("std=") :]))
        else:
            is_list = word.name in _HOST_OPTIONS
            words.append(word.with_value(_raised(word.value, standard)) if is_list else word)
    is_cxx = any(not source.endswith(".c") for source in sources)
    if is_cxx and not any(word.name in _OPTIONS for word in read):
        words.append(Word([f"-std=c++{standard}"], "-std", f"c++{standard}"))
    return words


def raise_host_standard(
    name: str, read: list[Word], sources: list[str], standard: str
) -> list[Word]:
    """Return the words of GCC, or of G++ where `name` ends so, likewise; C stays as it is."""
    if not standard:
        return read
    words = []
    has_standard = False
    for word in read:
        is_standard = word.name.startswith(("-std=", "--std="))
        has_standard = has_standard or is_standard
        text = _raised(word.name, standard)
        words.append(Word([text], text, "") if is_standard else word)
    is_cxx = name.endswith("++") or any(source.endswith(_CXX_SUFFIXES) for source in sources)
    if is_cxx and not has_standard:
        text = f"-std=gnu++{standard}"  # G++'s own default is a GNU dialect
        words.append(Word([text], text, ""))
    return words


def _raised(text: str, standard: str) -> str:
    for older in _NAMES[: _NAMES.index(standard)]:
        for dialect in _DIALECTS:
            text = text.replace(f"std={dialect}{older}", f"std={dialect}{standard}")
    return text
