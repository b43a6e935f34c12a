"""What in the engine opens or parses files in another way than its base does.

`python -m tests.support.lint.file_readers` prints what isn't allowed: a part of `nox -s lint`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from cuwheel.base.paths import ROOT, is_script

# The rest opens files with `base/system/regular_files`. Each module
# here says why nobody can have put a FIFO, a device or a link there.
OPENERS = {
    "base/system/regular_files": "the way for all others",
    "__main__": "/dev/null",
    "base/formats/signing_keys": "a new file",
    "base/fetch/remote_file": "a new file in a temporary folder",
    "check/audit/scan": "a member of an archive",
    "bootstrap": "the repository's own lock; it runs on nothing but the standard library",
    "build/compile/canary": "the event log of its own compiles",
    "build/compile/memory/ledger": "the engine's own folder in the cache",
    "build/compile/memory/peaks": "the engine's own files, which limit keys",
    "check/audit/python_functions": "the engine's own table",
    "check/cuda/driver_functions": "the engine's own table",
    "check/cuda/library_functions": "as above",
    "check/cuda/torch_exports": "the engine's own table",
    "check/explain/explain": "a pipe of the caller's shell, as in `explain <(command)`",
    "publish/install/transaction": "a folder, so as to sync it",
    "base/last_resort": "/dev/null, and descriptors that are open already",
    "base/project_trust": "the caller's list, without blocking; bare `cuwheel` has no engine",
    "base/fetch/download": "a part that is being written, in the cache",
    "base/free_memory": "the kernel's",
    "build/finish/slim": "a file of a wheel that it has unpacked itself",
    "build/sandbox/unix_server": "a folder, so as to have a short path",
    "build/finish/smoke/loaded_libraries": "a RECORD that was checked with its environment",
    "lab/perf/measured_wheel": "likewise",
    "build/finish/smoke/top_modules": "a RECORD that uv or cuwheel has just written",
    "base/system/files": "a file that is being written, whose name is random",
    "base/system/gpu_lock": "a lock's file, without following links",
    "base/system/cache_folder": "the engine's own marks, in its cache",
    "publish/rebuild/compare/wheel": "members of archives",
    "base/system/folders/staged_files": "new files, and a folder, so as to sync it",
    "base/system/folders/temporary": "a folder, so as to lock it",
}
# What copies files with `shutil`, which follows links to devices and stops at a FIFO without its
# name; all else takes `copy_regular`.
COPIERS = {
    "build/compile/cache/compile_cache": "the engine's own scripts and tools",
    "build/compile/toolkit_view": "the engine's own scripts",
    "build/pipeline/package_build/requirements": "a source that was checked; its own script",
    "cli/reference/site_source": "the engine's own pages",
    "publish/install/transaction": "the same, and links as they are",
    "bootstrap": "the engine itself",
    "build/locks/mirror": "a download in the cache, which its reader hashes",
    "build/locks/mirror_folder": "a tree, with `copy_regular`",
    "build/toolchains/cross/target_root": "a tree, with `copy_regular`",
    "lab/perf/upstream_tests": "a tree, with `copy_regular`",
    "build/finish/smoke/bytecode": "compiled modules in the cache",
    "build/inputs/tree": "files and links that it has checked, with their modes",
    "build/drafts/updates/framework_change": "a tree, with `copy_regular`",
    "build/pipeline/package_build/build_commands": "a source that stage source has checked",
    "build/pipeline/stages/patch": "likewise",
    "build/pipeline/stages/source": "a download whose hash was checked",
    "build/drafts/updates/source_check": "an archive that the engine has unpacked",
    "build/toolchains/cuda_home": "a toolchain whose files were installed by hash",
}
# What reads something to its end, and why that is bounded.
READERS = {
    "bootstrap": "as above",
    "build/compile/canary": "as above",
    "build/compile/memory/peaks": "as above",
    "check/audit/python_functions": "as above",
    "check/cuda/driver_functions": "as above",
    "check/cuda/library_functions": "as above",
    "check/cuda/torch_exports": "as above",
    "build/drafts/readers/setup_py": "no file: a syntax tree, which was read in bounds",
    "lab/perf/measured_wheel": "as above",
    "build/finish/smoke/top_modules": "as above",
    "build/sandbox/system_calls": "the filter that libseccomp has just made",
    "build/finish/smoke/loaded_libraries": "as above",
    "publish/rebuild/compare/elf": "sections, whose size was compared with a limit",
    "base/formats/wheel/metadata": "no file: bytes that were read in bounds",
    "build/finish/slim": "METADATA, whose size was checked with the archive",
    # Scripts that run in the sandbox of the package that has written what they read, or with the
    # rights that it has itself; or they read the kernel's files, or what the engine has written.
    "build/compile/launcher/command_line": "option files of the package",
    "build/compile/launcher/kept_files": "sources and headers of the package, what compilers wrote",
    "build/compile/memory_gate/child": "the kernel's",
    "base/free_memory": "the kernel's",
    "build/sandbox/namespaces/enter": "the kernel's",
    "publish/rebuild/signing/bundles": "the engine's; a trust configuration read in bounds",
    "check/diagnose/probes/environment": "metadata in the environment that it runs in",
    "check/diagnose/probes/experiment": "a startup file, which each start there reads",
}
# What parses by itself: anything that nests without end is a RecursionError there.
PARSERS = {
    "cli/mcp_server": "what a command of the engine has printed",
    "base/system/regular_files": "JSON, TOML and Python, for all others",
    "build/toolchains/conda/environment_file": "YAML, whose depth is limited",
    "check/explain/catalogue": "the engine's own YAML",
    "build/drafts/updates/file_changes": "a recipe that was loaded before",
    "publish/rebuild/attest/signatures": "JSON with a hook that refuses a name that is there twice",
    "base/project_trust": "the caller's list, read in bounds; it runs before the engine",
    "build/compile/events": "short lines of JSON, thousands in a second",
    "check/explain/explain": "a question whose log may hold half a character",
    "check/explain/log_text": "a line that may be JSON, of any log",
}
_OPENS = ("open", "FileIO", "ZipFile", "TarFile", "fromfile", "read_text", "read_bytes")
_COPIES = ("copy", "copy2", "copyfile", "copytree")
_WHOLE = ("read_bytes", "read_text", "readlines")
_PARSING = ("json", "pickle", "tomli", "tomllib", "yaml", "ast")
_PARSES = ("load", "loads", "parse")
_WRITING = frozenset("wax")
_OPENED = ("stream", "file", "fileobj")  # names of what is open already


def offences() -> list[str]:
    """Modules that open, read whole or parse by themselves, and exceptions that are none."""
    kinds: Mapping[str, set[str]] = {
        "copies": set(),
        "opens": set(),
        "reads whole": set(),
        "parses": set(),
    }
    for name, tree in _modules():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if not is_script(Path(name)):
                kinds["opens"] |= {name} if _opens(call) else set()
                kinds["copies"] |= {name} if _copies(call) else set()
                kinds["parses"] |= {name} if _parses(call) else set()
            kinds["reads whole"] |= {name} if _reads_whole(call) else set()
    allowed = {"copies": COPIERS, "opens": OPENERS, "reads whole": READERS, "parses": PARSERS}
    return [
        f"cuwheel/{name}.py {kind} a file by itself: see tests/support/lint/file_readers.py"
        for kind, found in kinds.items()
        for name in sorted(found ^ allowed[kind].keys())
    ]


def is_offence(call: str) -> bool:
    """Whether a call opens, reads whole or parses by itself."""
    node = ast.parse(call, mode="eval").body
    return isinstance(node, ast.Call) and any(
        is_kind(node) for is_kind in (_copies, _opens, _parses, _reads_whole)
    )


def _modules() -> Iterator[tuple[str, ast.Module]]:
    engine = ROOT / "cuwheel"
    for path in sorted(engine.rglob("*.py")):
        name = path.relative_to(engine).with_suffix("").as_posix()
        if not name.startswith("cli/starter/"):  # a project's
            yield name, ast.parse(path.read_text())


def _called(call: ast.Call) -> tuple[str, str]:
    """What a method is called on, the last of its names, and the method's; or a function's."""
    if isinstance(call.func, ast.Attribute):
        return _last_name(call.func.value), call.func.attr
    return "", _last_name(call.func)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else "()"


def _opens(call: ast.Call) -> bool:
    """Whether a call opens a file for reading by its path."""
    of, name = _called(call)
    if name not in _OPENS or of in {"wheel", "archive"}:  # members
        return False
    if name in {"read_text", "read_bytes"}:
        return bool(of)
    words = {keyword.arg or "": keyword.value for keyword in call.keywords}
    if {"fileobj", "opener"} & words.keys():
        return False
    first = ast.unparse(call.args[0]) if call.args else ""
    if first in _OPENED or first.startswith("open_file("):
        return False
    modes = [words.get("mode"), *call.args[:2]]
    return not any(
        isinstance(one, ast.Constant) and _WRITING & set(str(one.value)[:2]) for one in modes
    )


def _copies(call: ast.Call) -> bool:
    """Whether a call copies a file or a tree by its path; also one that `partial` will call."""
    functions = [call.func, *call.args]
    return any(
        _called(ast.Call(one, [], [])) in {("shutil", name) for name in _COPIES}
        for one in functions
        if isinstance(one, ast.Attribute)
    )


def _parses(call: ast.Call) -> bool:
    of, name = _called(call)
    return of in _PARSING and name in _PARSES


def _reads_whole(call: ast.Call) -> bool:
    """Whether a call reads to the end, however far that is."""
    of, name = _called(call)
    if not isinstance(call.func, ast.Attribute) or (name == "read_text" and of == "wheel"):
        return False
    return name in _WHOLE or (name == "read" and not call.args) or _loads(of, name)


def _loads(of: str, name: str) -> bool:
    return name == "load" and of in {"json", "pickle", "tomli", "tomllib"}


if __name__ == "__main__":
    sys.exit("\n".join(offences()) or None)
