"""Rules for the members of a wheel: damage, copies, paths of build machines, shared folders."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from packaging.utils import canonicalize_name

from cuwheel.base.formats.wheel.metadata import installed_path, is_library
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.check.audit.case import AuditCase, Contract
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.installed_projects import project_of_module
from cuwheel.check.audit.leaked_paths import COVERAGE, DATA
from cuwheel.check.audit.rules.programs import program_findings
from cuwheel.check.audit.rules.python.releases import MAGIC
from cuwheel.check.audit.tags import minor_of
from cuwheel.check.cuda.components import COMPONENTS, KNOWN_COMPONENTS
from cuwheel.check.cuda.frameworks import preloads
from cuwheel.check.cuda.suppliers import (
    component_of_copy,
    is_cuda_library,
    is_from_driver,
    is_grafted,
    name_before_graft,
    stem_of,
)

# Folders that CMake and make install into a prefix, and that packages have next to their code. In
# site-packages every wheel would share them; but `build/` belongs to the project `build`.
_SHARED = frozenset(
    {"bin", "build", "cmake", "data", "dist", "doc", "docs", "env", "etc", "example", "examples"}
    | {"include", "lib", "lib32", "lib64", "libexec", "man", "sbin", "scripts", "share", "src"}
    | {"test", "tests", "venv", ".eggs", ".git", ".github", "common", "config", "configs", "csrc"}
    | {"helpers", "home", "kernels", "models", "notebooks", "ops", "opt", "root", "tmp", "tools"}
    | {"usr", "utils", "var"}
)
# Of these, which people read or start, no code imports a module.
_READ = frozenset(
    {"build", "doc", "docs", "example", "examples", "man", "notebooks", "scripts", "share"}
    | {"test", "tests"}
)
_SHARED_FILES = frozenset(
    {"__init__.py", "common.py", "config.py", "conftest.py", "constants.py", "helpers.py"}
    | {"main.py", "setup.py", "test.py", "tests.py", "utils.py", "version.py"}
)
_OWN_FILES = frozenset({".py", ".pyi", ".pth", ".so", ".pyd", ".dll", ".dylib"})
_CACHED = re.compile(r"(.*/)?__pycache__/[^/]+\.pyc")
# Settings with passwords of tools, and of Git, whose `config` may hold a token.
_PRIVATE = re.compile(
    r"(^|/)(\.env(\.(local|production|development))?|(secrets?|credentials)\.(json|ya?ml|toml)"
    r"|\.(bash|python|zsh)_history|\.netrc|\.npmrc|\.pypirc|\.htpasswd|\.git/config|\.git-credentials|pip\.conf"
    r"|\.ssh/[^/]+|\.aws/(credentials|config)|\.docker/config\.json|\.kube/config"
    r"|id_(rsa|dsa|ecdsa|ed25519))$"
)
# Top-level modules of other projects, which a wheel with the same names overwrites.
_OWNED = frozenset(
    {"PIL", "_distutils_hack", "accelerate", "apex", "attr", "attrs", "bitsandbytes", "bs4"}
    | {"certifi", "cffi", "click", "cudf", "dask", "deepspeed", "diffusers", "flash_attn"}
    | {"fastapi", "flask", "lightgbm", "numexpr", "onnx", "peft", "pyarrow", "pycuda", "ray"}
    | {"skimage", "taichi", "tensorrt", "timm", "tvm", "vllm", "wandb", "xgboost", "zmq"}
    | {"cupy", "dateutil", "einops", "filelock", "flax", "fsspec", "functorch", "h5py", "idna"}
    | {"huggingface_hub", "jax", "jaxlib", "jinja2", "keras", "llvmlite", "markupsafe"}
    | {"matplotlib", "ml_dtypes", "mpmath", "networkx", "numba", "numpy", "onnxruntime", "optax"}
    | {"packaging", "pandas", "pip", "pkg_resources", "psutil", "pybind11", "pydantic", "pytest"}
    | {"requests", "rich", "safetensors", "scipy", "setuptools", "six", "sklearn", "sympy"}
    | {"tensorflow", "tokenizers", "torch", "torchaudio", "torchgen", "torchvision", "tqdm"}
    | {"transformers", "triton", "urllib3", "wheel", "xformers", "yaml"}
)
# Projects of one module; and files of packages, which another build of the project has with the
# package's `__init__.py`.
_MODULES = frozenset(
    {"decorator.py", "mypy_extensions.py", "pylab.py", "six.py", "threadpoolctl.py"}
    | {"typing_extensions.py"}
)
_WITH_VERSION = ("jax", "numpy", "packaging", "scipy", "setuptools", "torch", "torchvision", "tqdm")
_PARTS = frozenset(f"{name}/version.py" for name in _WITH_VERSION)
# Folders without `__init__.py`, to which many projects add: with one, only one of them works.
_NAMESPACES = frozenset({"cuda", "google", "jax_plugins", "mpl_toolkits", "nvidia"})
_OF_GLIBC = re.compile(r"lib(c|m|dl|rt|util|pthread|resolv)\.so\.\d+|ld-linux[-\w]*\.so\.\d+")
_STANDARD_LIBRARY = "libstdc++"
# Libraries of conda's python 3.13 and its requirements, and of its compilers.
_OF_PREFIX = re.compile(
    r"\.data/data/lib/lib(stdc\+\+|gcc_s|gomp|gfortran|quadmath|atomic|asan|tsan|ubsan|itm|python3[.\dt]*"
    r"|ssl|crypto|z|ffi|lzma|bz2|sqlite3|expat|readline|history|ncursesw?|tinfow?|tcl8\.\d|tk8\.\d|uuid)"
    r"\.so[.\d]*$"
)
_SEVERAL = frozenset({"libcudart", "libnvToolsExt"})
_ANYBODYS = re.compile(
    r"_?(C|core|cuda|cuda_ext|ext|kernels?|lib|native|ops|utils)\.([-\w]+\.)?so$"
)
# Of CMake, Ninja and gcc's coverage.
_BUILD_TREE = re.compile(
    r"(^|/)(CMakeFiles/|CMakeCache\.txt$|\.ninja_(log|deps)$)|\.gc(da|no)$|(^|/)build/.*\.o(bj)?$"
)
# Of Vim, Emacs, Kate and patch; of Java, Valgrind, CUDA and Cygwin.
_LEFT_OVER = re.compile(
    r"(^|/)(\.[^/]*\.(sw[a-p]|kate-swp)|\.#[^/]+|#[^/]+#|[^/]+\.un~|[^/]+\.py(~|\.orig|\.rej)"
    r"|hs_err_pid\d+\.log|vgcore\.\d+|[^/]+\.(nvcudmp|stackdump))$"
)
# Of systems, tools and profilers, which run nothing.
_CACHES = re.compile(
    r"(^|/)(__MACOSX/.*|\._[^/]+|\.DS_Store|Thumbs\.db|desktop\.ini|\.coverage|\.(ipynb_checkpoints|mypy_cache|idea|vscode"
    r"|pytest_cache|ruff_cache|tox|nox|hypothesis)/.*"
    r"|Dockerfile|\.travis\.yml|\.gitlab-ci\.yml|compile_commands\.json|[^/]+\.(orig|rej|bak)"
    r"|[^/]+\.(nsys-rep|ncu-rep|qdrep|nvvp|nvprof|whl|egg|gch|pch|i{1,2}|o|pyo|egg-link|cudafe1\.\w+|log|dwo|debug))$"
)
_INSTALLED = ("direct_url.json", "INSTALLER", "REQUESTED")  # files that installers write
# What Windows refuses (its documentation, "Naming Files, Paths, and Namespaces").
_RESERVED = re.compile(
    r"[<>:\"|?*\x00-\x1f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]|(^|/)(con|prn|aux|nul|com\d|lpt\d)"
    r"(\.[^/]*)?(/|$)|[. ](/|$)",
    re.IGNORECASE,
)
_MISSPELT = re.compile(r"(^|/)(_{1,2}init_{1,2}|__inti__|__Init__|init__)\.py$")
_DEBUG_MIN = 100 << 10  # bytes
# Libraries that hold a framework's state, of which a process can have one.
_CORES = {
    "torch": {f"libtorch{part}.so" for part in ("", "_cpu", "_cuda", "_python")}
    | {"libc10.so", "libc10_cuda.so"},
    "tensorflow": {"libtensorflow_framework.so.2", "libtensorflow_cc.so.2"},
}
_DEVICE = (".ptx", ".cubin", ".fatbin")
_OF_RECORD = re.compile(r"^its (hash|size) in RECORD|^RECORD (lists it, but|doesn't list)")
# Of types and documents.
_NO_CODE = re.compile(r"(\.pyi|/py\.typed|\.md|\.rst|\.txt|/LICENSE)$|\.dist-info/")
# Homes of build services' users, in a text of Python code; anybody's, as the value of a name.
_BUILDERS = re.compile(
    rb"[\"'](/home/(?:runner|gitlab-runner|vsts|jenkins|circleci|travis|conda)/[\w./+-]+|/__w/[\w./+-]+)"
    rb"|^\s*\w+ *= *[\"'](/home/(?!users?/|me/|you|name/|foo/|example)[\w-]+/[\w.+-]+/[\w./+-]+)"
    rb"[\"']\s*$",
    re.MULTILINE,
)
_SHOWN = 6  # names in one finding


def member_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about the archive, its size, and what was copied in from elsewhere."""
    for file, fact in case.scan.archive_faults:
        # Only tools that repack compare them (`wheel unpack`), not pip and uv.
        severity = case.severity("note" if fact.startswith("its hash") else "warning")
        severity = severity if _OF_RECORD.search(fact) else "error"
        yield finding(file, "archive", fact, severity)
    if case.contract and case.scan.size > case.contract.max_size:
        fact = f"{show_size(case.scan.size)}, the recipe allows {show_size(case.contract.max_size)}"
        yield finding(case.scan.file_name, "size", fact)
    measured = [leak.name for leak in case.scan.leaks if leak.text.endswith(COVERAGE)]
    for leak in case.scan.leaks:
        if leak.text.endswith(COVERAGE) and leak.name != measured[0]:
            continue
        times = f"; {leak.count} paths of that folder" if leak.count > 1 else ""
        # The paths in a copy of NVIDIA's library are of NVIDIA's machines.
        severity = "note" if is_grafted(leak.name) else case.severity("note")
        fact = f"it contains {leak.text}{times}"
        if leak.text.endswith(DATA) and not is_grafted(leak.name):
            severity, fact = "warning", f"it names {leak.text}, a file of the build machine"
        if leak.text.endswith(COVERAGE):
            severity, fact = "warning", f"compiled with --coverage, it writes {leak.text}"
            fact += f"; the same in {', '.join(measured[1:])}" if measured[1:] else ""
        yield finding(leak.name, "build path", fact, severity)
    for name, text in case.scan.sources.items():
        if name.endswith(".py") and (path := _BUILDERS.search(text)):
            fact = f"it contains {path[path.lastindex or 0].decode()}, a path of the build machine"
            yield finding(name, "build path", fact, "note")
    yield from _graft_findings(case)
    yield from _renamed_findings(case)
    yield from _secret_findings(case)


def _secret_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield one finding for each file with secrets."""
    kinds: dict[str, dict[str, None]] = {}
    for name, kind in case.scan.secrets:
        kinds.setdefault(name, {})[kind] = None
    for name, found in kinds.items():
        yield finding(name, "secret", f"it contains {' and '.join(found)}", "warning")
    for name in (n for n in case.scan.names if n not in kinds and _PRIVATE.search(n)):
        fact = "such a file holds passwords or settings"
        if name.endswith(".data/data/pip.conf"):
            fact = "installers write it into the environment, whose pip takes its index from there"
        yield finding(name, "secret", fact, "warning")


def layout_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about files in a wrong place, and about copies."""
    yield from _copy_findings(case)
    yield from _soname_findings(case)
    yield from _top_level_findings(case)
    yield from _byte_code_findings(case)
    yield from _data_findings(case)
    yield from _collision_findings(case)
    yield from _build_tree_findings(case)
    yield from _replaced_findings(case)
    yield from _origin_findings(case)
    yield from _debug_findings(case)
    yield from _foreign_findings(case)
    yield from _supplier_findings(case)
    yield from program_findings(case)
    yield from _empty_findings(case)


def _empty_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a wheel that installs nothing, or nothing compiled though its tag is for one Python."""
    names = [name for name in case.scan.names if not _NO_CODE.search(name)]
    is_typed = any("-stubs/" in name for name in case.scan.names)
    if not (names or case.requires or is_typed or case.scan.entry_points):
        fact = "it installs no code, and requires nothing"
        yield finding(case.scan.file_name, "library", fact, "warning")
    is_for_one = bool(case.tags) and all(tag.abi.startswith("cp") for tag in case.tags)
    if names and is_for_one and not (case.scan.libraries or case.scan.device_files):
        fact = "nothing in it is compiled, but the tag is for one Python"
        yield finding(case.scan.file_name, "library", fact, "note")


def _graft_findings(case: AuditCase) -> Iterator[AuditFinding]:
    sonames = {library.name: elf.soname for library, elf in case.host_libraries}
    yield from _driver_findings(sonames, case)
    # A wheel may have 200,000 files, and few are libraries or lie where repair tools put them.
    for name in (path for path in case.scan.names if ".so" in path or ".libs/" in path):
        file = name_before_graft(PurePosixPath(name).name)
        if _is_drivers(name, sonames):
            continue
        if _OF_GLIBC.fullmatch(file) and case.is_read:
            fact = "a part of glibc, which has to be of one build with the system's other parts"
            yield finding(name, "grafted library", fact)
        elif is_grafted(name) and not case.is_supplier and not _is_bundled(file, case.contract):
            fact = "a library that belongs to another wheel is copied in"
            severity = case.severity("warning" if _is_second(file, case) else "note")
            yield finding(name, "grafted library", fact, severity)
        elif _OF_PREFIX.search(name) and case.is_read:
            fact = f"installers write it over the environment's own lib/{file}, as conda's, with "
            fact += "which all of its programs run, and remove that when they uninstall the wheel"
            yield finding(name, "grafted library", fact, case.severity("warning"))
        elif not case.is_supplier and _is_frameworks(file, case):
            fact = (
                "a framework's library is copied in, which the wheel requires too: a process with "
            )
            yield finding(name, "grafted library", f"{fact}both has two of it", "warning")
        elif stem_of(file) == _STANDARD_LIBRARY and case.is_read and not case.contract:
            fact = "a second C++ runtime: a process may load both, or the older one for all"
            yield finding(name, "grafted library", fact, "warning")
        elif case.contract and _is_unnamed_copy(name, case.contract):
            fact = "it was copied from the build machine, and is not in the recipe's `bundles`"
            yield finding(name, "grafted library", fact)
        yield from _dlopen_findings(name, file, case)


def _is_drivers(name: str, sonames: Mapping[str, str]) -> bool:
    file = name_before_graft(PurePosixPath(name).name)
    return is_from_driver(sonames.get(name, "")) or is_from_driver(file)


def _driver_findings(sonames: Mapping[str, str], case: AuditCase) -> Iterator[AuditFinding]:
    """Yield the first of the driver's libraries; repair tools copy what it needs with it."""
    names = [name for name in case.scan.names if ".so" in name and _is_drivers(name, sonames)]
    if names:
        fact = "it belongs to the GPU's driver, and has to match the one on the user's machine"
        fact += f"; the same in {', '.join(names[1:])}" if names[1:] else ""
        yield finding(names[0], "grafted library", fact)


def _is_frameworks(file: str, case: AuditCase) -> bool:
    """Return True for a library of a framework that a requirement installs."""
    return any(file in names and owner in case.required for owner, names in _CORES.items())


def _is_unnamed_copy(name: str, contract: Contract) -> bool:
    path = PurePosixPath(name)
    is_copy = path.parts[0].endswith(".libs") and not is_grafted(name)
    return is_copy and stem_of(path.name) not in contract.bundles


def _is_second(file: str, case: AuditCase) -> bool:
    """Return True for a copy of a framework's library, or of one that a requirement installs too.

    Several runtimes of CUDA in one process work, as those that are linked into libraries.
    """
    component = component_of_copy(file)
    installed = {dep.distribution for dep in case.dependencies if not dep.extra}
    if component is None or stem_of(file) in _SEVERAL:
        return False
    return component.cuda is None or component.distribution in installed


def _dlopen_findings(name: str, file: str, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield libraries that a copy opens by name, and that the repair tool renamed."""
    component = component_of_copy(file)
    if component is None or case.is_supplier:
        return
    is_renamed = file != PurePosixPath(name).name
    files = {name for name in case.files if name_before_graft(name) == name}
    if stem_of(file) == f"lib{component.name}":  # its name fits the pattern of cuDNN's parts
        files.discard(file)
    installed = {dep.distribution for dep in case.dependencies}
    for pattern in component.opens:
        is_loaded = any(preloads(dep.by, pattern) for dep in case.dependencies)
        # Of another wheel, which may be loaded before; a renamed one's name is a mistake.
        is_loaded |= not is_renamed and component.distribution in installed
        if not is_loaded and not any(fnmatchcase(name, pattern) for name in files):
            fact = f"it opens {pattern} by name, but the wheel has no file of that name"
            yield finding(name, "grafted library", fact)


def _renamed_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield libraries that another one names in its code, and that a repair tool renamed.

    A renamed `DT_NEEDED` leaves the old name in the file.
    """
    renamed = {
        name_before_graft(name): name for name in case.own if name_before_graft(name) != name
    }
    for library, elf in case.host_libraries if renamed else ():
        if _is_drivers(library.name, {library.name: elf.soname}):
            continue  # it has to go itself
        known = {*map(name_before_graft, (*elf.needed, elf.soname)), *case.own}
        component = component_of_copy(PurePosixPath(library.name).name)
        expected = component.opens if component else ()  # has a finding of its own
        for opened in library.opened:
            if is_from_driver(opened) or is_from_driver(f"{opened}.1"):
                continue  # which only the system has
            is_expected = any(fnmatchcase(opened, pattern) for pattern in expected)
            if not is_expected and not any(_is_release(name, opened) for name in known):
                copies = [name for old, name in renamed.items() if _is_release(old, opened)]
                for copy in copies[:1]:
                    fact = f"it opens {opened} by name, which the wheel has only as {copy}"
                    # Without a release it is the system's, which code can do without.
                    is_sure = not opened.endswith(".so") or is_cuda_library(opened)
                    severity: Severity = "warning" if is_sure else "note"
                    if is_sure and is_grafted(library.name):
                        severity = "error"  # NVIDIA's own, which doesn't work without
                    yield finding(library.name, "grafted library", fact, case.severity(severity))


def _is_release(file: str, name: str) -> bool:
    """Return True for `libx.so.1.2` and the name `libx.so.1`, and the other way round."""
    return f"{file}.".startswith(f"{name}.") or f"{name}.".startswith(f"{file}.")


def _is_bundled(file: str, contract: Contract | None) -> bool:
    """Return True if the recipe requires copies; a framework's libraries are never copied."""
    frameworks = [pattern for part in COMPONENTS if part.cuda is None for pattern in part.sonames]
    is_framework = any(PurePosixPath(file).match(pattern) for pattern in frameworks)
    return contract is not None and contract.mode == "bundled" and not is_framework


def _copy_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about equal files: a wheel has no links, so each link became a copy."""
    copies: dict[str, list[str]] = defaultdict(list)
    for library in case.scan.libraries:
        copies[case.scan.contents[library.name].digest].append(library.name)
    for names in copies.values():
        first, *others = sorted(names)
        if others:
            wasted = case.scan.contents[first].size * len(others)
            more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
            fact = (
                f"the same content is in the wheel {len(names)} times, {show_size(wasted)} more "
                f"than needed when unpacked: also as {', '.join(others[:_SHOWN])}{more}"
            )
            yield finding(first, "library copies", fact, case.severity("note"))


def _soname_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield libraries with one soname and other content: the loader takes the first for both."""
    known: dict[str, str] = {}
    for library, elf in case.host_libraries:
        first = known.setdefault(elf.soname, library.name) if elf.soname else library.name
        is_other = case.scan.contents[first].digest != case.scan.contents[library.name].digest
        if is_other and elf.soname in case.needed:
            fact = f"{first} has the soname {elf.soname} too, and other content: what needs that "
            fact += "gets the one that the process has loaded first"
            yield finding(library.name, "library copies", fact, "note")


def _top_level_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about files directly in site-packages."""
    folders: dict[str, list[str]] = defaultdict(list)
    for name in case.scan.names:
        path = installed_path(name) if ".data/" in name else name
        first, slash, _ = str(path or "").partition("/")
        if not first or first == case.scan.dist_info:
            continue
        if slash and first in _SHARED and canonicalize_name(first) != case.project:
            folders[f"{first}/"].append(name)
        elif not slash and (
            first in _SHARED_FILES or PurePosixPath(first).suffix not in _OWN_FILES
        ):
            folders[first].append(name)
    placed: dict[Severity, list[tuple[str, str]]] = {}
    for place, names in sorted(folders.items()):
        size = show_size(sum(case.scan.contents[name].size for name in names))
        what = f"{plural(len(names), 'file')}, {size}" if place.endswith("/") else size
        # Others' modules of these names are hidden, or overwritten.
        is_package = f"{place}__init__.py" in names
        is_module = any(name.endswith(".py") for name in names) and place[:-1] not in _READ
        severity: Severity = "warning" if is_package or is_module else "note"
        placed.setdefault(severity, []).append((place, what))
    for severity, ((place, what), *others) in placed.items():
        fact = f"{what}: installed directly into site-packages, among other packages' files"
        fact += f"; so is {', '.join(other for other, _ in others)}" if others else ""
        yield finding(place, "top level", fact, severity)


def _collision_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield files that installers write to one place, here or where case doesn't count."""
    contents = case.scan.contents
    moved = (name for name in dict.fromkeys(case.scan.names) if ".data/" in name)
    for name in moved:
        other = str(installed_path(name) or name)
        if other != name and other in contents and contents[other] != contents[name]:
            fact = f"{other} is installed to the same path, with other content: one overwrites it"
            yield finding(name, "archive", fact)
    folded: dict[str, str] = {}
    for name in dict.fromkeys(case.scan.names):
        other = folded.setdefault(unicodedata.normalize("NFC", name).lower(), name)
        if _RESERVED.search(name):
            is_for_windows = "any" in case.platforms
            fact = "Windows, and tools of other systems, refuse such a name"
            yield finding(name, "archive", fact, "warning" if is_for_windows else "note")
        if other != name:
            fact = f"{other} has the same name where letter case doesn't count, as on macOS"
            is_lost = "any" in case.platforms and contents[other] != contents[name]
            yield finding(name, "archive", fact, "warning" if is_lost else "note")


def _build_tree_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield what a build left in the package's folder."""
    files = [name for name in case.scan.names if _BUILD_TREE.search(name)]
    if files:
        size = show_size(sum(case.scan.contents[name].size for name in files))
        fact = f"{plural(len(files), 'file')} of a build's own folder, {size}"
        yield finding(files[0], "build path", fact, "warning")
    for library in case.scan.libraries:
        if library.is_core:
            fact = "a crash left it: the memory of a process, and what that knew"
            yield finding(library.name, "build path", fact, "warning")
    for name in filter(_LEFT_OVER.search, case.scan.names):
        yield finding(name, "build path", "an editor or a crash left it", "warning")
    caches = [name for name in case.scan.names if _CACHES.search(name)]
    if caches:
        fact = f"{plural(len(caches), 'file')} that a build, a tool or a profiler left"
        yield finding(caches[0], "build path", fact, "note")
    configs = [pair for pair in case.scan.configs.items() if not pair[0].endswith(".pyi")]
    for name, fact in configs[:1]:
        more = f"; {len(configs) - 1} other such files" if len(configs) > 1 else ""
        yield finding(name, "build path", f"{fact}{more}", "note")
    for name in sorted(case.scan.configs.keys() - dict(configs).keys())[:1]:
        yield finding(name, "Python code", case.scan.configs[name], "warning")


def _replaced_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield files without the content that their names promise, and modes without an effect."""
    for name in sorted(case.scan.pointers):
        if not is_library(name):
            fact = "it is a Git LFS pointer instead of the file: run `git lfs pull` before the "
            yield finding(name, "archive", f"{fact}build", "warning")
    for name in case.scan.names:
        code = case.scan.device_files.get(name)
        is_empty = code is None or not (code.sass or code.ptx or code.lto or code.tile)
        if name.endswith(_DEVICE) and is_empty and name not in case.scan.pointers:
            fact = f"it has the name of device code, but holds no {name.rpartition('.')[2]}"
            yield finding(name, "library", fact, "warning")
        if _MISSPELT.search(name) and PurePosixPath(name).name != "__init__.py":
            fact = "it looks like a misspelt __init__.py, which Python doesn't run"
            yield finding(name, "Python code", fact, "warning")
    windows = [name for name in case.scan.names if name.endswith(".pyd")]
    if windows and case.platforms and all("linux" in each for each in case.platforms):
        yield finding(
            windows[0], "library", "a module for Windows, which Linux never loads", "note"
        )
    if case.scan.odd_modes:
        fact = f"{plural(len(case.scan.odd_modes), 'file')} with a mode that installers replace: "
        fact += "not readable, writable for everybody, or with the rights of another user"
        yield finding(case.scan.odd_modes[0], "archive", fact, "note")


def _origin_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield the files in which installers note how they got a package."""
    for file in _INSTALLED:
        if (name := f"{case.scan.dist_info}/{file}") in case.scan.names:
            fact = "installers write it"
            is_address = file == _INSTALLED[0]
            fact += ": pip freeze prints its address in place of the version" if is_address else ""
            yield finding(name, "metadata", fact, "warning" if is_address else "note")


def _debug_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield the library with most debug information, if that is the larger part of it."""
    sizes = {
        library.name: sum(part.size for part in elf.sections if part.name.startswith(".debug_"))
        for library, elf in case.host_libraries
    }
    wholes = {name: case.scan.contents[name].size for name in sizes}
    large = [name for name in sizes if sizes[name] > max(_DEBUG_MIN, wholes[name] // 2)]
    if large:
        name = max(large, key=sizes.__getitem__)
        fact = f"{show_size(sizes[name])} of its {show_size(wholes[name])} are debug information"
        more = f", as in {plural(len(large) - 1, 'other library')}"
        yield finding(name, "build path", fact + (more if len(large) > 1 else ""), "note")


def _byte_code_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield byte code in `__pycache__`, and elsewhere, as the package itself, of another Python."""
    minors = set(map(minor_of, case.tags))
    read = {MAGIC.get(minor or 0) for minor in minors}
    for name, magic in case.scan.byte_code.items():
        is_known = magic in MAGIC.values() and None not in read and case.tags
        if is_known and magic not in read and name in case.code.modules.values():
            release = next(minor for minor, number in MAGIC.items() if number == magic)
            fact = f"it is byte code of Python 3.{release}, which no Python of the tag imports"
            yield finding(name, "byte code", fact)
    files = [name for name in case.scan.names if _CACHED.fullmatch(name)]
    if files:
        size = show_size(sum(case.scan.contents[name].size for name in files))
        fact = f"{plural(len(files), 'file')} of byte code, {size}: installers compile their own"
        yield finding(files[0], "byte code", fact, "note")


def _foreign_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield top-level modules that belong to another project, or to Python itself."""
    paths = [path for name in case.scan.names if (path := installed_path(name))]
    tops = {path.parts[0] for path in paths if len(path.parts) > 1}
    tops |= {path.name for path in paths if len(path.parts) == 1 and path.suffix in (".py", ".so")}
    packages = {path.parent for path in paths if path.name == "__init__.py"}
    parts = {path.parts[0] for path in paths if str(path) in _PARTS}
    for top in sorted(tops):
        module = top.partition(".")[0]
        owner = project_of_module(module) or canonicalize_name(module)
        is_package = PurePosixPath(top) in packages
        is_part = top in parts and not is_package and owner != case.project
        is_family = owner == case.project if module in _OWNED else _is_family(owner, case)
        is_required = owner in case.required and not is_family
        if is_required and is_package and module not in _NAMESPACES:
            fact = f"{owner}, which the wheel requires, has this folder too: the one that is "
            severity: Severity = "error" if module in _OWNED else "warning"
            yield finding(top, "top level", f"{fact}installed last overwrites the other", severity)
        elif _is_build_of(owner, case.project) and not is_part:
            continue
        elif module in _OWNED or top in _MODULES:
            fact = f"it belongs to the project {owner}: the one that is installed last overwrites"
            is_file = is_package or is_part or top in _MODULES
            yield finding(top, "top level", f"{fact} the other", "error" if is_file else "warning")
        elif module in _NAMESPACES and is_package and not case.is_supplier:
            fact = "with its __init__.py modules of this folder aren't found in others of sys.path"
            yield finding(top, "top level", fact, "warning")
        elif _ANYBODYS.match(top):
            fact = "many projects have an extension module of that name: one overwrites another's"
            yield finding(top, "top level", fact, "warning")
        elif module in sys.stdlib_module_names and (is_package or "." in top):
            fact = "Python's own module of that name is imported instead"
            yield finding(top, "top level", fact, "warning")


def _is_build_of(owner: str, project: str) -> bool:
    """Return True for `torch-nightly` of `torch`, and for `attr` of `attrs`, by their names."""
    return bool(re.search(rf"(^|-|py){re.escape(owner)}\d*(-|$)", project)) or project in owner


def _is_family(owner: str, case: AuditCase) -> bool:
    return f"{case.project}-".startswith(f"{owner}-")


def _supplier_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield the first file in a folder of NVIDIA's wheels."""
    folders = {PurePosixPath(part.site_folder) for part in KNOWN_COMPONENTS}
    for path in filter(None, map(installed_path, case.scan.names)):
        if path.parts[0] == "nvidia" and path.parent in folders and not case.is_supplier:
            fact = "such a folder belongs to a wheel of NVIDIA's: the one that is installed last "
            yield finding(str(path), "top level", f"{fact}overwrites the other", "warning")
            return


def _data_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings about `.data` folders of another name, which some installers install as is."""
    own = f"{case.scan.dist_info.removesuffix('.dist-info')}.data"
    firsts = {name.partition("/")[0] for name in case.scan.names if ".data/" in name}
    for folder in sorted(firsts - {own}):
        if folder.endswith(".data"):
            fact = (
                f"the wheel's own folder is {own}: some installers put this one into site-packages"
            )
            yield finding(folder, "archive", fact)
