"""Wheels with one planted defect each, and sound ones that look like these.

The libraries are real, linked by gcc. A row of `DEFECTS` names the finding that has to be there; a
wheel of `SOUND` has no error and no warning.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.support.factories import compile_file, compile_library
from tests.support.packages.defective_wheels import audited, breaches, make_library, rpath

CP312 = "cp312-cp312-manylinux_2_39_x86_64"
OLD = "cp312-cp312-manylinux_2_28_x86_64"
MODULE = "void *PyInit__C(void) { return 0; }\n"
EXTENSION = "pkg/_C.cpython-312-x86_64-linux-gnu.so"
INFO = "pkg-1.2.3.dist-info"
DATA = "pkg-1.2.3.data"
ENTRY = f"{INFO}/entry_points.txt"
KEY = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG" * 8 + "\n"
TOKEN = "ghp_" + "a1B2" * 9
CUDART, CUBLAS, TORCH = "libcudart.so.12", "libcublas.so.12", "libtorch_cpu.so"
RUNTIME, LINK = "nvidia-cuda-runtime-cu12", "nvidia-nvjitlink-cu12"
RUNTIME13, CUDART13, RPATH13 = "nvidia-cuda-runtime", "libcudart.so.13", rpath("nvidia/cu13/lib")
CU12 = ("nvidia/cuda_runtime/lib", "nvidia/cublas/lib", "nvidia/nvjitlink/lib", "torch/lib")


@dataclass(frozen=True)
class Code:
    """C code of a library that needs sonames, or of a program; `header` changes bytes of it."""

    text: str = "int answer(void) { return 42; }\n"
    needs: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    is_program: bool = False
    header: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Plant:
    """A wheel, and the finding about it: severity, rule, file; None: no error, no warning."""

    name: str
    breach: tuple[str, str, str] | None
    files: dict[str, str | Code] = field(default_factory=dict)
    wheel: dict[str, Any] = field(default_factory=dict)


def calling(name: str) -> str:
    return f"int {name}(void); int f(void) {{ return {name}(); }}\n"


def opening(name: str) -> str:
    return f'void *dlopen(const char *, int); void *f(void) {{ return dlopen("{name}", 1); }}\n'


def error(rule: str, file: str) -> tuple[str, str, str]:
    return ("error", rule, file)


def warning(rule: str, file: str) -> tuple[str, str, str]:
    return ("warning", rule, file)


def note(rule: str, file: str) -> tuple[str, str, str]:
    return ("note", rule, file)


def package(code: str, **files: str) -> dict[str, str | Code]:
    return {"pkg/__init__.py": code, **{f"pkg/{name}.py": text for name, text in files.items()}}


def entry(text: str, code: str = "def main(): ...\n") -> dict[str, str | Code]:
    return {"pkg/__init__.py": "", "pkg/cli.py": code, ENTRY: f"[console_scripts]\n{text}\n"}


PY, START, TOP, META = "Python code", "program", "top level", "metadata"
META_FILE = "METADATA"
LIB, TOOL, SYMBOL, NEEDED = "pkg/libx.so", "pkg/bin/tool", "undefined symbol", "needed library"
TLS = '__thread char block[{}] __attribute__((tls_model("initial-exec")));\n'
TLS += "char *f(void) {{ return block; }}\n"
PROGRAM = Code("int main(void) { return 0; }\n", is_program=True)
FREE = EXTENSION.replace("312", "313t")
MUSL = EXTENSION.replace("-gnu", "-musl")
ABI3, PLAIN = "pkg/_C.abi3.so", "pkg/_C.so"
DARWIN = "pkg/_C.cpython-312-darwin.so"
NEW_LINK = Code(calling("__nvJitLinkCreate_12_8"), ("libnvJitLink.so.12",), rpath(*CU12))


CALLS = calling("cuInit") + MODULE
RUNTIME_CALL = calling("cudaLibraryLoadData")
RPATH12 = rpath(*CU12)
PRIVATE = '__asm__(".symver __ctype_init,__ctype_init@GLIBC_PRIVATE");\n' + calling("__ctype_init")
PTX = ".version 9.0\n.target sm_90\n"
HERE = "import os\nfrom pathlib import Path\nhere = Path(__file__).parent\n"
LOAD = "from torch.utils.cpp_extension import load\n"
NGC_KEY = "nvapi-" + "aB3dE6gH9j" * 6 + "kLm4"
VERSION = "from importlib.metadata import version\n"
OTHER_NAME, SETUPTOOLS = {"name": "pkg_cu12", "requires": ("a",)}, {"requires": ("setuptools",)}
SCRIPT = f"{DATA}/scripts/tool"
NVIDIA = "nvidia/cublas/lib/libmine.so"
# Places in the header of an ELF file: EI_OSABI, e_type, e_phnum.
FREEBSD, OBJECT, NO_SEGMENTS = ((7, 9),), ((16, 1),), ((56, 0),)
NUMPY = 'const char *numpy = "numpy._core._multiarray_umath";\n'
CFFI = 'const char cffi[] = "\\0_cffi_backend";\n'
OTHER = EXTENSION.replace("_C", "_D")
HOSTED = Code(calling("host_function"))
NO_TORCH = calling("_ZN2at7nothingEv")
GRAFTED = "pkg.libs/libstdc++-0a1b2c3d.so.6"

PATTERN = "import ctypes, glob\nctypes.CDLL(glob.glob('/x/libcudart.so.*[0-9]')[0])\n"
RPATH = ("-Wl,-rpath,$ORIGIN",)
SEARCHED = "import os\nos.environ['LD_LIBRARY_PATH'] = os.path.dirname(__file__) + '/lib'\n"
OPENED = "import ctypes, os\nctypes.CDLL(os.path.dirname(__file__) + '/libx.so')\n"


IMPORTING: dict[str, str | Code] = {"pkg/__init__.py": OPENED}
OPENS_DRIVER = "import ctypes\nctypes.CDLL('libcuda.so.1', ctypes.RTLD_GLOBAL)\n"
MALLOC = "void *malloc(unsigned long n) { return 0; }\nvoid free(void *p) { }\n" + MODULE
# In glibc since 2.27.
MEMFD: dict[str, str | Code] = {LIB: Code(calling("memfd_create"))}
OF_2014 = "cp312-cp312-manylinux_2_17_x86_64"
PIP_CONF = f"{DATA}/data/pip.conf"
WITH_M, JAX_PLUGIN = CP312.replace("-cp312", "-cp312m"), "jax-cuda13-plugin==0.7.0"
LOST_COPY = {
    LIB: Code(needs=("libone.so.1",)),
    "pkg.libs/libone-0a1b2c3d.so.1": Code(),
    **IMPORTING,
}
SAME_NAMES = "[console_scripts]\nx = pkg:f\n[other.plugins]\nx = pkg:f\n"
NEEDS13: dict[str, str | Code] = {LIB: Code(needs=(CUDART13,), flags=RPATH13)}
VARIANTS: dict[str, str | Code] = {
    "pkg/__init__.py": "import ctypes\nfor n in (4, 5):\n    ctypes.CDLL(f'/x/libx{n}.so')\n",
    **{f"pkg/libx{n}.so": Code(needs=(f"libavutil.so.5{n}",)) for n in (4, 5)},
}
BOTH = "cp311.cp312-cp311.cp312-manylinux_2_28_x86_64"


def two_of_one_soname(*names: str) -> dict[str, str | Code]:
    """Return two modules, each with the function of a name in a library of its own folder."""
    files: dict[str, str | Code] = {"pkg/__init__.py": "from . import _C, _D\n"}
    for name, folder, module in zip(names, "ab", (EXTENSION, OTHER), strict=True):
        soname = "libfoo.so.1"
        text = calling(name) + MODULE.replace("_C", module[4:6])
        files[module] = Code(text, (soname,), (f"-Wl,-rpath,$ORIGIN/{folder}",))
        own = f"int {name}(void) {{ return {ord(folder)}; }}\n"
        files[f"pkg/{folder}/{soname}"] = Code(own, flags=(f"-Wl,-soname,{soname}",))
    return files


INIT = "pkg/__init__.py"
# Loops with `-march` for AVX-512, and one more function that asks the CPU.
LOOPS = (
    "void f(float *a, float *b, int n) { for (int i = 0; i < n; i++) a[i] = a[i] * b[i] + i; }\n"
)
LOOPS += MODULE + LOOPS.replace("f(float", "g(double").replace("float", "double")
WIDE = Code(LOOPS, flags=("-O3", "-march=x86-64-v4", "-mprefer-vector-width=512"))
ASKING = Code(LOOPS + '__asm__("cpuid\\n");\n', flags=WIDE.flags)
CUPY = f"import cupy\n{HERE}cupy.RawModule(code=(here / 'k.cu').read_text())\n"
TEXTURES: dict[str, str | Code] = {INIT: CUPY, "pkg/k.cu": "#include <cuda_texture_types.h>\n"}
SM_60: dict[str, str | Code] = {
    INIT: f"{HERE}{LOAD}def f(): load('k', ['/x/k.cu'], extra_cuda_cflags=['-arch=sm_60'])\n"
}
READS_LATER = f"{HERE}def f(): return (here / 'a.cu').read_text()\n"
LOADS_LATER = f"{HERE}import ctypes\ndef f():\n    return ctypes.CDLL(str(here / 'liby.so'))\n"
INCLUDE = f"{HERE}def get_include(): return str(here / 'include')\n"
NP_BOOL = "import numpy as np\ndef f(x): return x.astype(np.bool)\n"
RESOURCES = "def f():\n    import pkg_resources\n    return pkg_resources\n"
FAULTY: tuple[
    tuple[
        str,
        Callable[..., tuple[str, str, str]],
        tuple[str, str],
        dict[str, str | Code],
        dict[str, Any],
    ],
    ...,
] = (
    ("copied name", error, (NEEDED, LIB), LOST_COPY, {}),
    ("TLS", error, ("library", LIB), {LIB: Code(TLS.format(4000)), **IMPORTING}, {}),
    ("allocator", warning, ("library", EXTENSION), {EXTENSION: Code(MALLOC)}, {}),
    ("driver", error, (SYMBOL, LIB), {LIB: Code(CALLS), **IMPORTING}, {"requires": (RUNTIME13,)}),
    ("pyd", note, ("library", "pkg/a.pyd"), {"pkg/a.pyd": ""}, {}),
    ("memfd", note, ("platform tag", LIB), MEMFD, {"tag": OF_2014, "requires": ("torch>=2.6",)}),
    ("memfd 2", error, ("platform tag", LIB), MEMFD, {"tag": OF_2014, "requires": ("torch>=2.5",)}),
    ("pip.conf", warning, ("secret", PIP_CONF), {PIP_CONF: "[global]\n"}, {}),
    ("torch<2.2", error, (META, "METADATA"), {}, {"requires": ("torch<2.2",)}),
    ("cp312m", error, ("tag", f"pkg-1.2.3-{WITH_M}.whl"), {}, {"tag": WITH_M}),
    ("14.99", error, (META, "METADATA"), {}, {"requires": (f"{RUNTIME13}==13.99.*",)}),
    ("jax", error, (META, "METADATA"), {}, {"requires": ("jax==0.8.0", JAX_PLUGIN)}),
    ("extra", note, (META, "METADATA"), {}, {"metadata": "\npip install 'pkg[x]'\n"}),
    ("FFmpeg", warning, (NEEDED, "pkg/libx4.so"), VARIANTS, {}),
    ("read later", warning, (PY, INIT), {INIT: READS_LATER}, {}),
    ("loaded later", warning, (PY, INIT), {INIT: LOADS_LATER}, {}),
    ("include folder", warning, (PY, INIT), {INIT: INCLUDE}, {}),
    ("AVX-512", warning, ("platform tag", EXTENSION), {EXTENSION: WIDE}, {}),
    ("textures", warning, (PY, "pkg/k.cu"), TEXTURES, {"requires": ("cupy-cuda13x",)}),
    ("sm_60", warning, (PY, INIT), SM_60, {"name": "pkg_cu13", "requires": ("torch", "ninja")}),
    ("extra of cuda", warning, (META, "METADATA"), {}, {"requires": ("cuda-toolkit[cudnn]",)}),
    ("np.bool", warning, (PY, INIT), {INIT: NP_BOOL}, {"requires": ("numpy>=1.22,<1.27",)}),
    ("pkg_resources", warning, (PY, INIT), {INIT: RESOURCES}, SETUPTOOLS),
    ("empty project", error, (META, "METADATA"), {}, {"requires": ("nvidia-cufile-cu13",)}),
    ("cu14", error, (META, "METADATA"), {}, {"requires": ("nvidia-cudnn-cu14",)}),
    (
        "one soname",
        note,
        ("library copies", "pkg/b/libfoo.so.1"),
        two_of_one_soname("one", "one"),
        {},
    ),
    (
        "other Python",
        note,
        ("tag", EXTENSION.replace("312", "311")),
        {EXTENSION: Code(MODULE), EXTENSION.replace("312", "311"): Code(MODULE)},
        {},
    ),
    ("macOS", note, ("build path", "__MACOSX/pkg/._x"), {"__MACOSX/pkg/._x": ""}, {}),
    ("_version", note, ("name", "pkg/_version.py"), package("", _version="__version__='9'\n"), {}),
)
QUIET: tuple[tuple[str, dict[str, str | Code], dict[str, Any]], ...] = (
    ("allocator", {"pkg/libtcmalloc.so": Code(MALLOC)}, {}),
    ("combinations", {"pkg/__init__.py": ""}, {"tag": BOTH}),
    ("jax", {}, {"requires": ("jax==0.7.1", JAX_PLUGIN)}),
    ("release", {}, {"requires": (f"{RUNTIME13}==13.0.*",)}),
    ("command", {"pkg/__init__.py": "def f(): ...\n", ENTRY: SAME_NAMES}, {}),
    (
        "driver",
        {LIB: Code(CALLS), "pkg/__init__.py": f"{OPENS_DRIVER}{OPENED}"},
        {"requires": (RUNTIME13,)},
    ),
    ("torch", NEEDS13, {"requires": (RUNTIME13, "torch>=2.9")}),
    ("AVX-512", {EXTENSION: ASKING}, {}),
    ("textures", TEXTURES, {"requires": ("cupy-cuda12x",)}),
    ("sm_60", SM_60, {"name": "pkg_cu12", "requires": ("torch", "ninja")}),
    ("extra of cuda", {}, {"requires": ("cuda-toolkit[cublas]",)}),
    ("np.bool", {INIT: NP_BOOL}, {"requires": ("numpy>=2",)}),
    ("read later", {INIT: READS_LATER, "pkg/a.cu": ""}, {}),
    ("made later", {INIT: READS_LATER.replace("def", "import subprocess\ndef")}, {}),
    (
        "ctypeslib",
        {
            INIT: "import numpy, os\nfrom .a import load_library\nload_library('libx')\n"
            "numpy.ctypeslib.load_library('libx', os.path.dirname(__file__))\n",
            "pkg/a.py": "def load_library(name, *names): ...\n",
            LIB: Code(),
        },
        {"requires": ("numpy",)},
    ),
    (
        "star import in a choice",
        package(
            "import os\nif os.name == 'posix':\n    from .a import *\nolder = f\ndef f(): ...\n",
            a="def f(): ...\n",
        ),
        {},
    ),
    (
        "lambda in an annotation",
        package("from typing import Annotated\nclass A:\n    x: Annotated[int, lambda v: v] = 1\n"),
        {},
    ),
    ("importlib.abc", package("from importlib.abc import Loader, MetaPathFinder\n"), {}),
    ("numpy of 3.12", package("import numpy.exceptions\n"), {"requires": ("numpy>=1.24",)}),
    (
        "bare numpy",
        package("import numpy.exceptions\n"),
        {"requires": ("numpy",), "python": ">=3.8"},
    ),
    (
        "passed to a library",
        {
            EXTENSION: Code(opening("libx.so") + MODULE),
            LIB: Code(needs=(CUDART13,)),
            INIT: "LIBRARIES = ['libcudart.so.13']\n",
        },
        {"requires": (RUNTIME13,)},
    ),
    ("AMD", {"pkg/a.co": Code(header=((18, 224),))}, {}),
    (
        "tried module",
        {
            EXTENSION: Code(MODULE, ("libtbb.so.12",)),
            INIT: "def f():\n    try:\n        from . import _C\n    except ImportError: ...\n",
        },
        {},
    ),
)


DEFECTS = (
    # Python code that an import always runs.
    Plant("syntax", error(PY, "pkg/__init__.py"), package("def f(:\n")),
    Plant("syntax in module", error(PY, "pkg/a.py"), package("from . import a\n", a="x = (\n")),
    Plant("Python 2", error(PY, "pkg/__init__.py"), package('print "x"\n')),
    Plant(
        "match before 3.10",
        error(PY, "pkg/__init__.py"),
        package("match 1:\n    case 1: ...\n"),
        {"python": ">=3.8"},
    ),
    Plant(
        "walrus before 3.8",
        error(PY, "pkg/__init__.py"),
        package("(x := 1)\n"),
        {"python": ">=3.7"},
    ),
    Plant("no extension", error(PY, "pkg/__init__.py"), package("from ._C import run\n")),
    Plant("no extension, absolute", error(PY, "pkg/__init__.py"), package("import pkg._C\n")),
    Plant("no extension, by name", error(PY, "pkg/__init__.py"), package("from . import _C\n")),
    Plant(
        "no module of module",
        error(PY, "pkg/a.py"),
        package("from .a import f\n", a="from .b import f\n"),
    ),
    Plant("no name", error(PY, "pkg/__init__.py"), package("from .a import g\n", a="f = 1\n")),
    Plant("undeclared", error(PY, "pkg/__init__.py"), package("import numpy\n")),
    Plant(
        "undeclared with torch",
        error(PY, "pkg/__init__.py"),
        package("import numpy\nimport torch\n"),
        {"requires": ("torch==2.8.0",)},
    ),
    Plant("undeclared framework", warning(PY, "pkg/__init__.py"), package("import torch\n")),
    Plant(
        "only an extra's",
        error(PY, "pkg/__init__.py"),
        package("import einops\n"),
        {"requires": ('einops; extra == "all"',)},
    ),
    Plant(
        "other name",
        error(PY, "pkg/__init__.py"),
        package("import yaml\n"),
        {"requires": ("numpy",)},
    ),
    Plant(
        "module and package",
        note(PY, "pkg/a.py"),
        {"pkg/__init__.py": "", "pkg/a.py": "", "pkg/a/__init__.py": ""},
    ),
    *(
        Plant(
            f"{code} from {python}",
            breach(PY, "pkg/__init__.py"),
            package(code),
            {"python": python},
        )
        for code, python, breach in (
            ("import tomllib\n", ">=3.9", error),
            ("from typing import override\n", ">=3.10", error),
            ("from collections import Mapping\n", ">=3.10", error),
            ("import distutils.util\n", ">=3.12", error),
            ("import distutils.util\n", ">=3.9", warning),
            ("def f(x: int | None): ...\n", ">=3.9", error),
            ("class A:\n    x: list[int]\n", ">=3.8", error),
            ('__all__ = ["f", "g"]\nf = 1\n', ">=3.9", warning),
            (f'{HERE}text = (here / "a.cu").read_text()\n', ">=3.9", error),
            (
                f'{HERE}text = open(os.path.join(here, "..", "pkg", "a.cu")).read()\n',
                ">=3.9",
                error,
            ),
            ('import ctypes\nctypes.CDLL("libnvrtc.so")\n', ">=3.9", warning),
        )
    ),
    Plant(
        "other file",
        error(PY, "pkg/__init__.py"),
        {
            "pkg/__init__.py": f'import ctypes\n{HERE}ctypes.CDLL(str(here / "libx.so"))\n',
            "pkg/libx.so.1": Code(),
        },
    ),
    *(
        Plant(name, breach(PY, member), package(code, **files), wheel)
        for name, breach, member, code, files, wheel in (
            # Files that an import opens.
            *(
                (f"opens {text}", error, "pkg/__init__.py", f"{HERE}{text}\n", {}, {})
                for text in (
                    'with open(here / "a.cu") as file:\n    TEXT = file.read()',
                    'TEXT = Path(__file__).with_name("a.cu").read_text()',
                    'TEXT = open(f"{os.path.dirname(__file__)}/a.cu").read()',
                    'TEXT = open(str(here) + "/a.cu").read()',
                    'TEXT = (Path(__file__).parents[0] / "a.cu").open().read()',
                    'import pkgutil\nTEXT = pkgutil.get_data(__name__, "a.cu")',
                    'from importlib.resources import files\nx = (files("pkg") / "a").read_text()',
                    'def read(name):\n    return (here / name).read_text()\nTEXT = read("a.cu")',
                    'TEXTS = {n: (here / n).read_text() for n in ("a.cu", "b.cu")}',
                    'for n in ["a.cu"]:\n    open(here / n)',
                )
            ),
            (
                "opens by another module",
                error,
                "pkg/__init__.py",
                "from .a import FOLDER\nTEXT = (FOLDER / 'a.cu').read_text()\n",
                {"a": f"{HERE}FOLDER = here / 'data'\n"},
                {},
            ),
            (
                "compiles",
                error,
                "pkg/__init__.py",
                f"{HERE}{LOAD}_C = load(name='c', sources=[here / 'a.cu'])\n",
                {},
                {},
            ),
            (
                "compiles when called",
                warning,
                "pkg/a.py",
                "",
                {
                    "a": f"{HERE}{LOAD}"
                    "def get():\n    files = [str(here / n) for n in ('a.cu', 'b.cu')]\n"
                    "    return load(name='c', sources=files)\n"
                },
                {},
            ),
            # The order of imports.
            (
                "circular",
                error,
                "pkg/a.py",
                "from .a import f\nx = 1\n",
                {"a": "from pkg import x\nf = 1\n"},
                {},
            ),
            (
                "circular among three",
                error,
                "pkg/c.py",
                "from . import a\n",
                {
                    "a": "from .b import y\nx = 1\n",
                    "b": "from .c import z\ny = 1\n",
                    "c": "from .a import x\nz = 1\n",
                },
                {},
            ),
            (
                "circular attribute",
                error,
                "pkg/a.py",
                "from . import a\nx = 1\n",
                {"a": "import pkg\ny = pkg.x\n"},
                {},
            ),
            ("undefined", error, "pkg/__init__.py", "x = y + 1\n", {}, {}),
            ("defined later", error, "pkg/__init__.py", "x = f()\ndef f(): ...\n", {}, {}),
            (
                "all of a module",
                error,
                "pkg/__init__.py",
                "from .a import *\n",
                {"a": "__all__ = ['f']\n__all__ += ['g']\nf = 1\n"},
                {},
            ),
            # Modules that nothing imports.
            ("Python 2 aside", warning, "pkg/a.py", "", {"a": "x = 1\nprint 'x'\n"}, {}),
            ("no extension aside", warning, "pkg/a.py", "", {"a": "from ._C import f\n"}, {}),
            ("undeclared aside", note, "pkg/a.py", "", {"a": "import torch\n"}, {}),
            # Names of other projects' releases.
            *(
                (
                    f"{code} with {requirement}",
                    breach,
                    "pkg/__init__.py",
                    code,
                    {},
                    {"requires": (requirement,)},
                )
                for code, requirement, breach in (
                    ("from torch._six import inf\n", "torch>=2.4", error),
                    ("from torch.library import custom_op\n", "torch>=2.1", warning),
                    ("from numpy import float_\n", "numpy>=1.24", warning),
                    ("import numpy as np\ndef f(): return np.float_(1)\n", "numpy>=2", warning),
                )
            ),
        )
    ),
    Plant(
        "entry with an extra",
        warning(PY, "entry_points.txt"),
        entry("tool = pkg.cli:main [gpu]"),
    ),
    Plant(
        "import from above the top",
        error(PY, "pkg/__init__.py"),
        package("from ..common import a\n", common="a = 1\n"),
    ),
    Plant("zero byte", error(PY, "pkg/a.py"), package("from . import a\n", a="a = 1\n\0")),
    # Entry points, scripts and programs.
    Plant("entry without function", error(PY, "entry_points.txt"), entry("tool = pkg.cli")),
    Plant("entry without module", error(PY, "entry_points.txt"), entry("tool = pkg.run:main")),
    Plant("entry of other name", error(PY, "entry_points.txt"), entry("tool = pkg.cli:start")),
    Plant("entry python", error(PY, "entry_points.txt"), entry("python = pkg.cli:main")),
    Plant("entry pip", error(PY, "entry_points.txt"), entry("pip3 = pkg.cli:main")),
    Plant("unreadable entry", error(PY, "entry_points.txt"), {ENTRY: "tool = pkg:main\n"}),
    Plant(
        "script python",
        error(START, f"{DATA}/scripts/python"),
        {f"{DATA}/scripts/python": "#!python\n"},
    ),
    Plant(
        "data bin python",
        error(START, f"{DATA}/data/bin/python3"),
        {f"{DATA}/data/bin/python3": ""},
    ),
    Plant(
        "interpreter of builder",
        error(START, f"{DATA}/scripts/tool"),
        {f"{DATA}/scripts/tool": "#!/opt/build/venv/bin/python\n"},
    ),
    Plant(
        "interpreter with CR",
        error(START, f"{DATA}/scripts/tool"),
        {f"{DATA}/scripts/tool": "#!/bin/sh\r\n"},
    ),
    Plant(
        "loader of builder",
        error(START, TOOL),
        {TOOL: Code(PROGRAM.text, flags=("-Wl,--dynamic-linker=/nix/ld.so",), is_program=True)},
        {"modes": {TOOL: 0o755}},
    ),
    Plant("editable", error(START, "pkg.pth"), {"pkg.pth": "/home/me/pkg/src\n"}),
    Plant("pth without module", error(START, "pkg.pth"), {"pkg.pth": "import pkg_hooks\n"}),
    Plant("no execute bit", warning(START, TOOL), {TOOL: PROGRAM}),
    Plant(
        "program by torch",
        warning(NEEDED, TOOL),
        {TOOL: Code(PROGRAM.text, (CUDART,), is_program=True)},
        {"requires": ("torch==2.8.0",), "modes": {TOOL: 0o755}},
    ),
    Plant(
        "program and own library",
        warning(NEEDED, TOOL),
        {
            TOOL: Code(PROGRAM.text, ("libx.so",), is_program=True),
            LIB: Code(flags=("-Wl,-soname,libx.so",)),
        },
        {"modes": {TOOL: 0o755}},
    ),
    Plant("sitecustomize", warning(START, "sitecustomize.py"), {"sitecustomize.py": ""}),
    Plant(
        "usercustomize in data",
        warning(START, f"{DATA}/purelib/usercustomize.py"),
        {f"{DATA}/purelib/usercustomize.py": ""},
    ),
    Plant("pth with code", warning(START, "pkg.pth"), {"pkg.pth": "import pkg\n"}),
    # Names.
    Plant(
        "torch's folder, required",
        error(TOP, "torch"),
        {"torch/__init__.py": ""},
        {"name": "my_torch_pkg", "requires": ("torch",)},
    ),
    Plant("NVIDIA's folder", warning(TOP, NVIDIA), {NVIDIA: Code()}),
    Plant(
        "nothing",
        warning("library", "pkg-1.2.3-py3-none-manylinux_2_39_x86_64.whl"),
        {"pkg/__init__.pyi": "x: int\n"},
    ),
    Plant("torch's folder", error(TOP, "torch"), {"torch/__init__.py": ""}),
    Plant(
        "torch's library",
        warning(TOP, "torch"),
        {"torch/lib/libmine.so": Code()},
    ),
    Plant("numpy.py", warning(TOP, "numpy.py"), {"numpy.py": ""}),
    Plant(
        "numpy in data", warning(TOP, "numpy.py"), {f"{DATA}/platlib/numpy.py": "", "pkg/x.py": ""}
    ),
    Plant("nvidia's init", warning(TOP, "nvidia"), {"nvidia/__init__.py": ""}),
    Plant("Python's module", warning(TOP, "queue.py"), {"queue.py": ""}),
    Plant("tests", warning(TOP, "tests/"), {"tests/__init__.py": ""}),
    Plant("setup.py", warning(TOP, "setup.py"), {"setup.py": ""}),
    Plant("musl", error("library", MUSL), {MUSL: Code(MODULE)}, {"tag": CP312}),
    Plant("darwin", error("library", DARWIN), {DARWIN: Code(MODULE)}, {"tag": CP312}),
    Plant("pyd", error("library", "pkg/_C.pyd"), {"pkg/_C.pyd": Code(MODULE)}, {"tag": CP312}),
    Plant(
        "not free-threaded",
        error("library", EXTENSION.replace("312", "313")),
        {EXTENSION.replace("312", "313"): Code(MODULE)},
        {"tag": "cp313-cp313t-manylinux_2_39_x86_64"},
    ),
    Plant(
        "free-threaded",
        error("library", FREE),
        {FREE: Code(MODULE)},
        {"tag": "cp313-cp313-manylinux_2_39_x86_64"},
    ),
    Plant(
        "debug",
        error("library", EXTENSION.replace("312", "312d")),
        {EXTENSION.replace("312", "312d"): Code(MODULE)},
        {"tag": CP312},
    ),
    Plant(
        "stable ABI, free-threaded",
        error("library", "pkg/_C.abi3.so"),
        {"pkg/_C.abi3.so": Code(MODULE)},
        {"tag": "cp313-cp313t-manylinux_2_39_x86_64"},
    ),
    Plant(
        "module of one Python",
        error("tag", EXTENSION),
        {EXTENSION: Code(MODULE), "pkg/__init__.py": "from ._C import f\n"},
        {"tag": "cp310-abi3-manylinux_2_39_x86_64"},
    ),
    Plant(
        "name of many",
        warning(TOP, "_C.cpython-312-x86_64-linux-gnu.so"),
        {"_C.cpython-312-x86_64-linux-gnu.so": Code(MODULE)},
        {"tag": CP312},
    ),
    Plant(
        "two contents",
        error("archive", f"{DATA}/purelib/pkg/a.py"),
        {"pkg/a.py": "x = 1\n", f"{DATA}/purelib/pkg/a.py": "x = 2\n"},
    ),
    Plant(
        "letter case",
        ("note", "archive", "pkg/A.py"),
        {"pkg/a.py": "x = 1\n", "pkg/A.py": "x = 2\n"},
    ),
    Plant(
        "build tree",
        warning("build path", "pkg/build/CMakeCache.txt"),
        {"pkg/build/CMakeCache.txt": "", "pkg/x.py": ""},
    ),
    Plant(
        "editable's origin",
        warning(META, f"{INFO}/direct_url.json"),
        {f"{INFO}/direct_url.json": "{}"},
    ),
    Plant("C++ runtime", warning("grafted library", GRAFTED), {GRAFTED: Code()}),
    Plant("NGC key", warning("secret", "pkg/a.py"), {"pkg/a.py": f"KEY = '{NGC_KEY}'\n"}),
    Plant("private key", warning("secret", "pkg/server.pem"), {"pkg/server.pem": KEY}),
    Plant("token", warning("secret", "pkg/a.py"), {"pkg/a.py": f"TOKEN = '{TOKEN}'\n"}),
    Plant("settings", warning("secret", "pkg/.env"), {"pkg/.env": "X=1\n"}),
    Plant("git", warning("secret", "pkg/.git/config"), {"pkg/.git/config": "[core]\n"}),
    # Names of distributions in code.
    *(
        Plant(f"asks with {code}", breach(PY, "pkg/__init__.py"), package(f"{code}\n"), wheel)
        for code, wheel, breach in (
            (f"{VERSION}__version__ = version('wrong')", {}, error),
            (f"{VERSION}__version__ = version(__name__)", OTHER_NAME, error),
            ("import importlib.metadata\nimportlib.metadata.distribution('wrong')", {}, error),
            ("from importlib import metadata as m\nx = m.metadata('wrong')['Name']", {}, error),
            ("import pkg_resources as p\np.get_distribution('wrong')", SETUPTOOLS, error),
            (f"{VERSION}def f(name): return version(name)\nf('wrong')", {}, error),
            (f"{VERSION}x = version('einops')", {"requires": ('einops; extra == "a"',)}, warning),
        )
    ),
    *(
        Plant(f"reads {code}", error(PY, "pkg/__init__.py"), package(f"{HERE}{code}\n"))
        for code in (
            "NAMES = [name for name in os.listdir(here / 'kernels')]",
            "from importlib.resources import files\nNAMES = list(files('pkg.kernels').iterdir())",
            "TEXT = open(__file__.replace('__init__.py', 'a.cu')).read()",
            "SIZE = os.stat(here / 'a.cu').st_size",
            "TEXT = open(here / 'a.cu').read()\ndef f(): os.path.exists(TEXT)",
        )
    ),
    *(
        Plant(f"package {file}", warning(PY, file), {file: ""})
        for file in ("my-pkg/__init__.py", "3d/__init__.py", "class/__init__.py")
    ),
    Plant("below a folder", warning(PY, "pkg-1/pkg/__init__.py"), {"pkg-1/pkg/__init__.py": ""}),
    # Other projects' files.
    *(
        Plant(f"{file} in {name}", error(TOP, file.partition("/")[0]), {file: ""}, {"name": name})
        for file, name in (
            ("torch/version.py", "pkg"),
            ("torch/version.py", "torch_pkg"),
            ("typing_extensions.py", "pkg"),
            ("PIL/__init__.py", "pkg"),
        )
    ),
    # Scripts.
    *(
        Plant(
            f"script {line}",
            breach(START, SCRIPT),
            {SCRIPT: f"{line}\nimport pkg\n"},
            {"modes": {SCRIPT: 0o755}},
        )
        for line, breach in (
            ("#!/usr/bin/python3", warning),
            ("#!/usr/bin/env python3.8", warning),
            ("#!/usr/bin/env python3", note),
            ("#!/home/me/venv/bin/python", error),
            ("import os", warning),
        )
    ),
    Plant("script without execute bit", warning(START, SCRIPT), {SCRIPT: "#!python\n"}),
    Plant("program among scripts", warning(START, SCRIPT), {SCRIPT: PROGRAM}),
    # Markers.
    *(
        Plant(
            f"marker {marker}",
            breach(META, "METADATA"),
            {},
            {"requires": (f"numpy; {marker}",), "tag": tag},
        )
        for marker, tag, breach in (
            ("platform_system == 'linux'", CP312, warning),
            ("sys_platform == 'Linux'", CP312, warning),
            ("platform_machine == 'amd64'", CP312, warning),
            ("implementation_name == 'CPython'", CP312, warning),
            ("os_name == 'Linux'", CP312, warning),
            ("python_version >= '3.12.2'", CP312, warning),
            ("python_version < '3.12.2'", CP312, note),
            ("platform_system != 'linux'", CP312, note),
            ("sys_platform == 'windows'", "py3-none-any", warning),
            ("platform_machine == 'arm64' and sys_platform == 'linux'", CP312, warning),
        )
    ),
    *(
        Plant(
            f"classifier {name}",
            warning(META, "METADATA"),
            {},
            {"metadata": f"Classifier: {name}\n"},
        )
        for name in (
            "GPU",
            "Topics :: Software Development",
            "Programming Language :: Python::3",
            "License :: OSI Approved :: MIT",
            "Typing :: typed",
        )
    ),
    # Requirements and claims.
    Plant("address", warning(META, "METADATA"), {}, {"requires": ("a @ https://x.org/a.whl",)}),
    Plant("star", error(META, "METADATA"), {}, {"requires": ("numpy>=2.0.*",)}),
    Plant("extra not provided", warning(META, "METADATA"), {}, {"requires": ("a; extra == 'x'",)}),
    Plant("no licence", warning(META, "METADATA"), {}, {"metadata": "License-File: COPYING\n"}),
    Plant(
        "licence twice",
        note(META, "METADATA"),
        {},
        {
            "metadata": "License-Expression: MIT\n"
            "Classifier: License :: OSI Approved :: MIT License\n"
        },
    ),
    Plant("newer PTX", error("driver", "pkg/a.ptx"), {"pkg/a.ptx": PTX}, {"name": "pkg_cu12"}),
    Plant("own file", error(META, "METADATA"), {}, {"requires": ("a @ file:///home/me/a.whl",)}),
    Plant("contradiction", error(META, "METADATA"), {}, {"requires": ("numpy<2", "numpy>=2")}),
    *(
        Plant(
            f"requires {requirement}",
            breach(META, "METADATA"),
            {},
            {"requires": (requirement,), "tag": CP312},
        )
        for requirement, breach in (
            ("torch>=2.4,<2.3", error),
            ("numpy>2.1,<=2.1", error),
            ("torch==2.6.0+cu124", warning),
            ("pytorch", error),
            ("nvidia-cuda-runtime-cu13", error),
            ("numpy<1.26", warning),
        )
    ),
    *(
        Plant(f"Python {python}", breach(META, "METADATA"), {}, {"python": python, "tag": tag})
        for python, tag, breach in (
            ("==3.12", CP312, error),
            (">=3.10,<=3.12", CP312, error),
            (">=3.10,<=3.12", "py3-none-any", warning),
        )
    ),
    Plant(
        "classifier",
        warning(META, "METADATA"),
        {},
        {"metadata": "Classifier: Environment :: GPU :: NVIDIA CUDA :: 13.0\n"},
    ),
    Plant(
        "newer cuDNN",
        error(NEEDED, LIB),
        {LIB: Code(needs=("libcudnn.so.8",), flags=rpath("nvidia/cudnn/lib"))},
        {"requires": ("nvidia-cudnn-cu12>=8.9",)},
    ),
    Plant(
        "torch and runtime",
        error(META, "METADATA"),
        {},
        {"requires": ("torch==2.8.0", f"{RUNTIME}==12.1.105")},
    ),
    Plant(
        "torch and cublas",
        error(META, "METADATA"),
        {},
        {"requires": ("torch==2.11.*", "nvidia-cublas==13.4.*")},
    ),
    Plant(
        "older nvJitLink",
        warning(NEEDED, LIB),
        {LIB: NEW_LINK},
        {"requires": (f"{LINK}>=12.1",)},
    ),
    Plant(
        "older runtime",
        warning(NEEDED, LIB),
        {LIB: Code(RUNTIME_CALL, (CUDART,), RPATH12)},
        {"requires": (f"{RUNTIME}>=12.1",)},
    ),
    Plant(
        "older NCCL",
        warning(NEEDED, LIB),
        {LIB: Code(calling("ncclMemAlloc"), ("libnccl.so.2",), rpath("nvidia/nccl/lib"))},
        {"requires": ("nvidia-nccl-cu12>=2.18",)},
    ),
    Plant(
        "runtime by an extra",
        warning(NEEDED, LIB),
        {LIB: Code(needs=(CUDART,), flags=RPATH12)},
        {"requires": (f'{RUNTIME}; extra == "cuda"',)},
    ),
    Plant(
        "runtime never required",
        error(NEEDED, LIB),
        {LIB: Code(needs=(CUDART,), flags=RPATH12)},
        {"requires": (f'{RUNTIME}; platform_system == "linux"',)},
    ),
    Plant(
        "rpath for another layout",
        error(NEEDED, EXTENSION),
        {EXTENSION: Code(MODULE, (CUDART,), rpath("nvidia/cu13/lib"))},
        {"requires": (RUNTIME,), "tag": CP312},
    ),
    Plant(
        "path as soname",
        error(NEEDED, EXTENSION),
        {EXTENSION: "versions: needs by path"},
        {"tag": CP312},
    ),
    Plant("driver without version", warning(NEEDED, LIB), {LIB: Code(needs=("libcuda.so",))}),
    Plant("filter", error(NEEDED, LIB), {LIB: Code(flags=("-Wl,-F,libnone.so.1",))}),
    Plant(
        "no torch required",
        warning(NEEDED, LIB),
        {LIB: Code(needs=(TORCH,), flags=rpath(*CU12))},
    ),
    # Symbols and storage.
    Plant(
        "own version",
        error(SYMBOL, LIB),
        {LIB: "versions: needs 2", "pkg/libv.so.1": "versions: has 1"},
    ),
    Plant("renamed runtime", error(SYMBOL, LIB), {LIB: "versions: needs libcudart.so.12"}),
    Plant(
        "function of other runtime",
        error(SYMBOL, EXTENSION),
        {EXTENSION: f"versions: needs cudaGetDeviceProperties_v2 of {CUDART13}"},
        {"tag": CP312, "requires": (f"{RUNTIME13}==13.*",)},
    ),
    Plant(
        "function of newer nvJitLink",
        error(SYMBOL, EXTENSION),
        {EXTENSION: Code(calling("__nvJitLinkCreate_13_0") + MODULE, NEW_LINK.needs, RPATH12)},
        {"tag": CP312, "requires": (LINK,)},
    ),
    *(
        Plant(
            f"opened, {name}",
            error(NEEDED, EXTENSION),
            {
                "pkg/__init__.py": f"{OPENED}from . import _C\n",
                EXTENSION: Code(MODULE, ("libx.so",)),
                LIB: Code(flags=flags),
            },
            {"tag": CP312},
        )
        for name, flags in (("no soname", ()), ("other soname", ("-Wl,-soname,libx.so.1",)))
    ),
    Plant(
        "LD_LIBRARY_PATH of itself",
        error(NEEDED, EXTENSION),
        {
            "pkg/__init__.py": f"{SEARCHED}from . import _C\n",
            EXTENSION: Code(MODULE, ("libx.so",)),
            "pkg/lib/libx.so": Code(),
        },
        {"tag": CP312},
    ),
    Plant(
        "LD_LIBRARY_PATH of another program",
        warning(NEEDED, EXTENSION),
        {
            "pkg/__init__.py": f"{SEARCHED}os.execv('/bin/x', ['x'])\nfrom . import _C\n",
            EXTENSION: Code(MODULE, ("libx.so",)),
            "pkg/lib/libx.so": Code(),
        },
        {"tag": CP312},
    ),
    *(
        Plant(
            f"raised again, {name}",
            error(NEEDED, EXTENSION),
            {
                "pkg/__init__.py": f"try:\n    from . import _C\nexcept {handler}\n",
                EXTENSION: Code(MODULE, (CUDART,)),
                OTHER: Code(MODULE.replace("_C", "_D")),
            },
            {"tag": CP312},
        )
        for name, handler in (
            ("as it is", "ImportError as problem:\n    print(problem)\n    raise"),
            ("as another", "ImportError as problem:\n    raise RuntimeError('x') from problem"),
        )
    ),
    *(
        Plant(f"over conda's {name}", warning("grafted library", name), {name: Code()})
        for name in (f"{DATA}/data/lib/libstdc++.so.6", f"{DATA}/data/lib/libssl.so.3")
    ),
    *(
        Plant(
            f"parts of {PurePosixPath(name).name}",
            error("grafted library", name),
            {name: Code(opening("libcudnn_ops.so"))},
        )
        for name in ("pkg/libcudnn.so.9", "pkg/libcudnn.so.8")
    ),
    Plant("driver's function", error(SYMBOL, EXTENSION), {EXTENSION: Code(CALLS)}, {"tag": CP312}),
    Plant(
        "no device link", error(SYMBOL, LIB), {LIB: Code(calling("__cudaRegisterLinkedBinary_x"))}
    ),
    Plant(
        "function of older Pythons",
        error(SYMBOL, EXTENSION),
        {EXTENSION: Code(calling("PyUnicode_AsUnicode") + MODULE)},
        {"tag": CP312},
    ),
    *(
        Plant(
            f"{name} with {tag} from {python}",
            breach,
            {file: Code(calling(name) + MODULE)},
            {"tag": f"{tag}-manylinux_2_39_x86_64", "python": python},
        )
        for name, file, tag, python, breach in (
            (
                "PyObject_GetOptionalAttr",
                EXTENSION,
                "cp312-cp312",
                ">=3.12",
                error(SYMBOL, EXTENSION),
            ),
            ("PyNothing_Call", EXTENSION, "cp312-cp312", ">=3.12", error(SYMBOL, EXTENSION)),
            ("PyNothing_Call", ABI3, "cp39-abi3", ">=3.9", error(SYMBOL, ABI3)),
            (
                "_PyObject_CallMethodIdObjArgs",
                PLAIN,
                "cp312.cp313-none",
                ">=3.12",
                error(SYMBOL, PLAIN),
            ),
            ("_PyObject_CallMethodIdObjArgs", ABI3, "cp39-abi3", ">=3.9", error(SYMBOL, ABI3)),
            ("PyUnicode_New", ABI3, "cp39-abi3", ">=3.9", warning("stable ABI", ABI3)),
            ("_PyObject_CallMethodIdObjArgs", FREE, "cp313-cp313t", ">=3.13", error(SYMBOL, FREE)),
        )
    ),
    *(
        Plant(
            f"{name} without its library",
            error(SYMBOL, EXTENSION),
            {EXTENSION: Code(calling(name) + MODULE, flags=("-static-libgcc",))},
            {"tag": CP312},
        )
        for name in ("_Znwm", "__cxa_throw", "_ZSt4cout", "GOMP_parallel", "_gfortran_st_write")
    ),
    Plant(
        "glibc for musl",
        error("platform tag", EXTENSION),
        {EXTENSION: Code(MODULE, ("libc.so.6",))},
        {"tag": "cp312-cp312-musllinux_1_2_x86_64"},
    ),
    Plant(
        "Linux for macOS",
        error("platform tag", EXTENSION),
        {EXTENSION: Code(MODULE)},
        {"tag": "cp312-cp312-macosx_11_0_arm64"},
    ),
    # Libraries and extensions that Python code loads.
    *(
        Plant(
            f"bare: {code}",
            breach(PY, "pkg/__init__.py"),
            {**package(f"import ctypes\n{code}\n"), LIB: Code()},
        )
        for code, breach in (
            ("ctypes.CDLL('libx.so')", error),
            ("ctypes.cdll.LoadLibrary('lib/libx.so')", error),
            ("from cffi import FFI\nffi = FFI().dlopen('libx.so')", error),
            ("ctypes.CDLL(ctypes.util.find_library('x'))", error),
            ("def load():\n    return ctypes.CDLL('libx.so')", warning),
        )
    ),
    Plant(
        "NVIDIA's library by its bare name",
        warning(PY, "pkg/__init__.py"),
        package("import ctypes\nctypes.CDLL('libcublas.so.12')\n"),
        {"requires": ("nvidia-cublas-cu12",)},
    ),
    *(
        Plant(
            f"extension first, {name}",
            error(NEEDED, EXTENSION),
            {**files, EXTENSION: Code(MODULE, ("libc10.so",))},
            {"tag": CP312, "requires": ("torch==2.8.0",)},
        )
        for name, files in (
            ("alone", package("from . import _C\n")),
            (
                "in a module",
                package("from .ops import f\nimport torch\n", ops="from ._C import f\n"),
            ),
            ("after numpy", package("import os\nimport numpy\nfrom ._C import f\nimport torch\n")),
        )
    ),
    Plant(
        "stable ABI for both builds",
        error("library", ABI3),
        {ABI3: Code(MODULE)},
        {"tag": "cp313-abi3.cp313t-manylinux_2_39_x86_64"},
    ),
    Plant(
        "driver linked",
        note("driver", EXTENSION),
        {EXTENSION: Code(MODULE, ("libcuda.so.1",))},
        {"tag": CP312},
    ),
    Plant(
        "libm by chance",
        note(SYMBOL, EXTENSION),
        {EXTENSION: Code(calling("cosf") + MODULE)},
        {"tag": CP312},
    ),
    Plant(
        "path of a toolkit",
        note(NEEDED, LIB),
        {LIB: Code(opening("/usr/local/cuda-13.0/lib64/libnvrtc.so.13"))},
    ),
    Plant(
        "path of a kernel",
        note("build path", LIB),
        {LIB: Code('const char *k = "/home/jenkins/a/k.cubin";\n')},
    ),
    Plant(
        "path in a text", note("build path", "pkg/a.py"), {"pkg/a.py": "P = '/home/jenkins/cuda'\n"}
    ),
    Plant(
        "only newer PTX",
        warning("driver", "pkg/a.ptx"),
        {"pkg/a.ptx": PTX.replace("9.0", "9.3")},
        {"name": "pkg", "version": "1.2.3+cu130"},
    ),
    Plant(
        "device code removed",
        error("library", LIB),
        {LIB: Code('__attribute__((section(".nvFatBinSegment"))) int wrapper = 1;\n')},
    ),
    *(
        Plant(
            name,
            error("library", EXTENSION),
            {EXTENSION: Code(MODULE, header=header), **package("from . import _C\n")},
            {"tag": CP312},
        )
        for name, header in (
            ("of FreeBSD", FREEBSD),
            ("object file", OBJECT),
            ("no segments", NO_SEGMENTS),
        )
    ),
    Plant(
        "two of one soname",
        error(SYMBOL, OTHER),
        two_of_one_soname("one", "two"),
        {"tag": CP312},
    ),
    *(
        Plant(f"C API, {text}", error(PY, EXTENSION), {EXTENSION: Code(text + MODULE)}, wheel)
        for text, wheel in ((NUMPY, {"tag": CP312}), (CFFI, {"tag": CP312}))
    ),
    *(
        Plant(
            f"{name} of {soname}",
            error(SYMBOL, LIB),
            {LIB: Code(calling(name), (soname,), flags), **package(OPENED)},
            {"requires": (requirement,)},
        )
        for name, soname, flags, requirement in (
            ("cudaNothing", CUDART, RPATH12, RUNTIME),
            ("cudaThreadExit", "libcudart.so.13", rpath("nvidia/cu13/lib"), RUNTIME[:19]),
        )
    ),
    Plant(
        "torch of ROCm",
        error(NEEDED, EXTENSION),
        {
            EXTENSION: Code(MODULE, ("libc10_hip.so",)),
            **package("import torch\nfrom . import _C\n"),
        },
        {"requires": ("torch",), "tag": CP312},
    ),
    Plant(
        "opened without its runtime",
        error(NEEDED, LIB),
        {LIB: Code(needs=(CUDART,)), **package(OPENED)},
        {"requires": (RUNTIME,)},
    ),
    Plant(
        "two majors of a runtime",
        warning("unused requirement", "METADATA"),
        {LIB: Code(needs=(CUDART,), flags=RPATH12)},
        {"requires": (RUNTIME, RUNTIME[:19])},
    ),
    Plant("glibc's own", error("platform tag", LIB), {LIB: Code(PRIVATE)}),
    Plant(
        "packed relocations",
        error("platform tag", LIB),
        {LIB: Code("int x; int *p = &x;\n", flags=("-Wl,-z,pack-relative-relocs",))},
        {"tag": OLD},
    ),
    Plant(
        "no dlopen",
        error("library", EXTENSION),
        {EXTENSION: Code(MODULE, flags=("-Wl,-z,nodlopen",))},
        {"tag": CP312},
    ),
    Plant(
        "program as module",
        error("library", EXTENSION),
        {EXTENSION: Code(PROGRAM.text + MODULE, flags=("-Wl,-E",), is_program=True)},
        {"tag": CP312},
    ),
    Plant(
        "librt",
        error("platform tag", LIB),
        {LIB: Code(calling("shm_open"), flags=("-nostdlib",))},
        {"tag": OLD},
    ),
    *(
        Plant(f"one of {name}", breach(*place), files, {"tag": CP312, **wheel})
        for name, breach, place, files, wheel in FAULTY
    ),
    Plant(
        "static TLS",
        error("library", EXTENSION),
        {EXTENSION: Code(TLS.format(4000) + MODULE)},
        {"tag": CP312},
    ),
    Plant(
        "executable stack", error("executable stack", LIB), {LIB: Code(flags=("-z", "execstack"))}
    ),
    *(
        Plant(
            f"rpath {entry}",
            breach("rpath", LIB),
            {LIB: Code(needs=(CUDART,), flags=rpath(*CU12, first=entry))},
            {"requires": (RUNTIME,)},
        )
        for entry, breach in (
            ("/opt/lib", note),
            ("lib", warning),
            ("/tmp/build/lib", warning),
            ("/usr/local/cuda/lib64/stubs", note),
            ("/usr/local/cuda/lib64", warning),
        )
    ),
    Plant(
        "renamed sibling",
        warning("grafted library", "pkg.libs/libone-0a1b2c3d.so.1"),
        {
            "pkg.libs/libone-0a1b2c3d.so.1": Code(opening("libtwo.so.1")),
            "pkg.libs/libtwo-0a1b2c3d.so.1.2": Code("int two;\n"),
        },
    ),
    Plant(
        "framework that is only imported",
        warning(NEEDED, LIB),
        {LIB: Code(needs=("libtensorflow_framework.so.2",)), **package("import tensorflow\n")},
    ),
    Plant("no supplier", error(NEEDED, LIB), {LIB: Code(needs=("libnone.so.1",))}),
    Plant("no requirement", error(NEEDED, LIB), {LIB: Code(needs=(CUBLAS,), flags=rpath(*CU12))}),
    Plant(
        "driver's library",
        error("grafted library", "pkg/libcuda.so.1"),
        {"pkg/libcuda.so.1": Code()},
    ),
    Plant("opened", ("note", NEEDED, LIB), {LIB: Code(opening("libcudart.so"))}),
    Plant("opened nvrtc", ("note", NEEDED, LIB), {LIB: Code(opening("libnvrtc.so.12"))}),
    Plant(
        "missing module init",
        error("library", EXTENSION),
        {EXTENSION: Code("void *PyInit_other(void) { return 0; }\n")},
        {"tag": CP312},
    ),
    Plant(
        "byte code",
        note("byte code", "pkg/__pycache__/a.cpython-312.pyc"),
        {"pkg/__pycache__/a.cpython-312.pyc": "x"},
    ),
)

SOUND = (
    *(
        Plant(f"asks soundly with {code}", None, package(f"{VERSION}{code}\n"), wheel)
        for code, wheel in (
            ("__version__ = version('Pkg')", {}),
            ("x = version('numpy')", {"requires": ("numpy",)}),
            ("x = version('typing-extensions')", {"requires": ("torch",)}),
            ("x = version('numpy')", {"requires": ("something",)}),
            ("try:\n    x = version('wrong')\nexcept Exception: ...", {}),
            ("import contextlib\nwith contextlib.suppress(Exception): version('wrong')", {}),
            ("def f(): return version('wrong')", {}),
            ("def version(name): return name\nversion('wrong')", {}),
        )
    ),
    *(
        Plant(f"reads soundly {code}", None, package(f"{HERE}{code}\n", a=""))
        for code in (
            "NAMES = [name for name in os.listdir(here)]",
            "from importlib.resources import files\nNAMES = list(files('numpy').iterdir())",
            "TEXT = open(__file__.replace('__init__', 'a')).read()",
            "import contextlib\nwith contextlib.suppress(OSError): open(here / 'a.cu')",
            "def f(): os.makedirs(here)\ndef g(): f()\ng()\nTEXT = open(here / 'a.cu').read()",
        )
    ),
    Plant("other names too", None, {"my-pkg/__init__.py": "", "pkg/a.py": ""}),
    *(
        Plant(f"{name} with {' '.join(files)}", None, dict.fromkeys(files, ""), {"name": name})
        for name, files in (
            ("torch_nightly", ("torch/__init__.py", "torch/version.py")),
            ("typing_extensions", ("typing_extensions.py",)),
            ("pillow_simd", ("PIL/__init__.py",)),
        )
    ),
    *(
        Plant(
            f"script {line}",
            None,
            {SCRIPT: f"{line}\necho\n", "pkg/x.py": ""},
            {"modes": {SCRIPT: 0o755}},
        )
        for line in ("#!python3", "#!/bin/bash", "#!/usr/bin/env bash")
    ),
    Plant("batch file", None, {f"{SCRIPT}.bat": "@echo off\n", "pkg/x.py": ""}),
    *(
        Plant(f"marker {marker}", None, {}, {"requires": (f"numpy; {marker}",), "tag": CP312})
        for marker in (
            "platform_system == 'Linux'",
            "sys_platform == 'linux' or sys_platform == 'linux2'",
            "sys_platform == 'win32'",
            "sys_platform == 'freebsd14' and platform_machine == 'amd64'",
            "platform_machine == 'x86_64' or platform_machine == 'amd64'",
            "platform_machine == 'arm64' and platform_system == 'Darwin'",
            "platform_machine == 'AMD64'",
            "python_version < '3.8'",
            "python_version in '3.12 3.13'",
            "python_full_version >= '3.12.2'",
            "python_version >= '3.12.0'",
        )
    ),
    *(
        Plant(f"{code} from {python}", None, package(code), {"python": python})
        for code, python in (
            ("import tomllib\n", ">=3.11"),
            ("try:\n    import tomllib\nexcept ImportError: ...\n", ">=3.9"),
            ("import distutils.util\n", ">=3.9,<3.12"),
            ("from typing import override\n", ">=3.12"),
            ("from __future__ import annotations\ndef f(x: int | None): ...\n", ">=3.9"),
            ("def f():\n    def g(x: int | None): ...\n", ">=3.9"),
            ("FLAGS = 1 | 2\ndef f(x: FLAGS | FLAGS): ...\n", ">=3.9"),
            ('__all__ = ["f"]\ndef __getattr__(name): ...\n', ">=3.9"),
            (f'{HERE}text = (here / "__init__.py").read_text()\n', ">=3.9"),
            (f'{HERE}def f(x):\n    if x: return (here / "a.cu").read_text()\n', ">=3.9"),
            (f'{HERE}f = lambda: open(here / "a.cu")\n', ">=3.9"),
            (f'{HERE}if not (here / "a").exists(): ...\nx = (here / "a").read_text()\n', ">=3.9"),
            ('import ctypes\nctypes.CDLL("libcuda.so.1")\n', ">=3.9"),
        )
    ),
    *(
        Plant(f"{code} sound", None, package(f"{HERE}{code}\n", **files), {"requires": requires})
        for code, files, requires in (
            ('open("/var/cache/a.cu", "w")', {}, ()),
            ('with open(here / "a.py") as file: ...', {"a": ""}, ()),
            ('def read(name): return (here / name).read_text()\nread("a.py")', {"a": ""}, ()),
            ("def read(name): return (here / name).read_text()", {}, ()),
            (
                'import importlib.resources as r\nr.files("pkg").joinpath("a.py").read_text()',
                {"a": ""},
                (),
            ),
            ('for n in ["a.cu"]:\n    if here: open(here / n)', {}, ()),
            ("from .a import f\nx = 1", {"a": "import pkg\ndef f(): return pkg.x\n"}, ()),
            ("x = 1\nfrom .a import f", {"a": "from pkg import x\nf = 1\n"}, ()),
            ("from . import a", {"a": "from . import b\n", "b": "from . import a\n"}, ()),
            ("if TYPE_CHECKING:\n    from .a import f\nTYPE_CHECKING = 0", {"a": ""}, ()),
            ("x = [y for y in range(3)]\nz = (w := 1)", {}, ()),
            ("def f():\n    global g\nx = lambda: g", {}, ()),
            ("from .a import *", {"a": "__all__ = ['f']\ndef __getattr__(name): ...\n"}, ()),
            ("from torch.library import custom_op", {}, ("torch>=2.4",)),
            ("from numpy import float_", {}, ("numpy<2",)),
            ('import numpy as np\nx = np.float_ if hasattr(np, "float_") else 1', {}, ("numpy",)),
        )
    ),
    *(
        Plant(f"requires {requirement}", None, {}, {"requires": (requirement,), "tag": CP312})
        for requirement in ("numpy>=1.26", "numpy!=2.1,>=2", "torch~=2.6.0", "torch==2.8.*")
    ),
    *(
        Plant(f"Python {python}", None, {"pkg/x.py": ""}, {"python": python, "tag": CP312})
        for python in (">=3.12,<3.13", "==3.12.*", ">3.11,!=3.12.0,<4", ">=3.12.2")
    ),
    Plant(
        "cuDNN 8",
        None,
        {LIB: Code(needs=("libcudnn.so.8",), flags=rpath("nvidia/cudnn/lib"))},
        {"requires": ("nvidia-cudnn-cu12>=8.9,<9",)},
    ),
    Plant(
        "classifier",
        None,
        {"pkg/x.py": ""},
        {"metadata": "Classifier: Environment :: GPU :: NVIDIA CUDA :: 13\n"},
    ),
    Plant("metapackage", None, {"pkg/py.typed": ""}, {"requires": ("numpy",)}),
    Plant("cupy of a CUDA", None, {"cupy/__init__.py": ""}, {"name": "cupy_cuda13x"}),
    Plant("module for Windows", None, package("", _pswindows="from . import _win\n")),
    Plant(
        "entry with its extra",
        None,
        entry("tool = pkg.cli:main [gpu]"),
        {"metadata": "Provides-Extra: gpu\n"},
    ),
    Plant(
        "distutils by setuptools",
        None,
        package("import distutils\n"),
        {"requires": ("setuptools",)},
    ),
    Plant("distutils by torch", None, package("import distutils\n"), {"requires": ("torch>=2.5",)}),
    Plant("cuBLAS 11.11", None, package(""), {"requires": ("nvidia-cublas-cu11>=11.11.3.6",)}),
    Plant("placeholder", None, {"pkg/a.py": f"T = 'hf_{'x' * 34}'\nA = 'AKIAIOSFODNN7EXAMPLE'\n"}),
    Plant(
        "C++ runtime for musl",
        None,
        {GRAFTED: Code(flags=("-nostdlib",))},
        {"tag": "py3-none-musllinux_1_2_x86_64"},
    ),
    Plant(
        "script with CR",
        None,
        {SCRIPT: "#!python\r\n", "pkg/x.py": ""},
        {"modes": {SCRIPT: 0o755}},
    ),
    Plant("one content", None, {"pkg/a.py": "", f"{DATA}/purelib/pkg/a.py": ""}),
    Plant("extra", None, {}, {"requires": ('a; extra == "x"',)}),
    Plant(
        "licence",
        None,
        {f"{INFO}/licenses/COPYING": "x", "pkg/x.py": ""},
        {"metadata": "License-Expression: MIT\nLicense-File: COPYING\n"},
    ),
    Plant("PTX", None, {"pkg/a.ptx": PTX}, {"name": "pkg_cu13"}),
    Plant(
        "runtime",
        None,
        {LIB: Code(RUNTIME_CALL, (CUDART,), RPATH12)},
        {"requires": (f"{RUNTIME}>=12.8",)},
    ),
    Plant(
        "plug-in of a program",
        None,
        {EXTENSION: Code(MODULE), "pkg/p/libp.so": HOSTED},
        {"tag": CP312},
    ),
    Plant("object", None, {"pkg/x.o": Code(header=OBJECT), LIB: Code()}),
    Plant("for FreeBSD too", None, {"pkg/bsd/liby.so": Code(header=FREEBSD), LIB: Code()}),
    Plant("one of one soname", None, two_of_one_soname("one", "one"), {"tag": CP312}),
    *(
        Plant(f"C API of {text}", None, {EXTENSION: Code(text + MODULE), **files}, wheel)
        for text, files, wheel in (
            (NUMPY, {}, {"tag": CP312, "requires": ("numpy",)}),
            (CFFI, {}, {"tag": CP312, "requires": ("cffi",)}),
            (NUMPY, package("try:\n    import numpy\nexcept ImportError: ...\n"), {"tag": CP312}),
        )
    ),
    *(
        Plant(
            f"{name} of the runtime",
            None,
            {LIB: Code(calling(name), (CUDART,), RPATH12), **package(OPENED)},
            {"requires": (RUNTIME,)},
        )
        for name in ("cudaMalloc", "cudaThreadExit", "cudaMemcpyAsync_ptsz")
    ),
    Plant(
        "for releases before the table",
        None,
        {f"pkg/liba_pytorch_1.{minor}.0.so": Code(NO_TORCH, (TORCH,)) for minor in (7, 8)},
    ),
    Plant(
        "OpenMP of torch",
        None,
        {
            LIB: Code(needs=("libgomp.so.1",)),
            "pkg/liby.so": Code(flags=rpath("torch/lib")),
        },
        {"requires": ("something",)},
    ),
    Plant(
        "other name of a requirement",
        None,
        {EXTENSION: Code(MODULE, ("libother.so",)), **package("import other\nfrom . import _C\n")},
        {"requires": ("another-cu12",), "tag": CP312},
    ),
    Plant(
        "driver's function by the driver",
        None,
        {EXTENSION: Code(CALLS, ("libcuda.so.1",))},
        {"tag": CP312},
    ),
    Plant(
        "packed relocations for newer systems",
        None,
        {LIB: Code("int x; int *p = &x;\n", flags=("-Wl,-z,pack-relative-relocs",))},
    ),
    Plant(
        "library below the environment",
        None,
        {
            LIB: Code(needs=("libdata.so.1",), flags=("-Wl,-rpath,$ORIGIN/../../..",)),
            f"{DATA}/data/lib/libdata.so.1": Code("int data;\n"),
        },
    ),
    Plant(
        "folder of another project",
        None,
        {LIB: Code(needs=("libmore.so",), flags=rpath("more_libs"))},
        {"requires": ("something",)},
    ),
    Plant(
        "own name", None, {"pkg/_C.cpython-312-x86_64-linux-gnu.so": Code(MODULE)}, {"tag": CP312}
    ),
    Plant("package", None, package("from .a import f\n", a="def f(): ...\n")),
    Plant(
        "optional import", None, package("try:\n    from . import _C\nexcept ImportError: ...\n")
    ),
    Plant("import in function", None, package("def f():\n    import numpy\n")),
    Plant("lazy names", None, package("def __getattr__(name): ...\n", a="from pkg import x\n")),
    Plant("submodule", None, package("from . import a\nfrom pkg import a\n", a="")),
    Plant("all names", None, package("from .a import *\nfrom . import f\n", a="f = 1\n")),
    Plant(
        "names of branches",
        None,
        package("from .a import f\n", a="if 1:\n    f = 1\nelse:\n    import f\n"),
    ),
    Plant("changed path", None, package("__path__.append('x')\nfrom . import _C\n")),
    Plant(
        "names of an extension",
        None,
        {
            PLAIN: Code(MODULE),
            **package(
                "from importlib import import_module\nimport_module('pkg._C')\nfrom . import a\n",
                a="from pkg import run\n",
            ),
        },
    ),
    Plant("plugin", None, package("import pkg\nimport jax\n"), {"name": "jax_plugin"}),
    Plant("declared", None, package("import yaml\n"), {"requires": ("pyyaml",)}),
    Plant("brought", None, package("import numpy\n"), {"requires": ("scipy",)}),
    Plant("unknown", None, package("import numpy\n"), {"requires": ("something",)}),
    Plant("no test", None, {"pkg/__init__.py": "", "pkg/tests/data.py": "def f(:\n"}),
    Plant("new syntax", None, package("type X = int\n"), {"tag": CP312.replace("312", "314")}),
    Plant("entry", None, entry("tool = pkg.cli:main")),
    Plant("entry of class", None, entry("tool = pkg.cli:App.run", "class App: ...\n")),
    Plant("entry of other project", None, entry("tool = other.cli:main")),
    *(
        Plant(
            f"script {line}",
            None,
            {SCRIPT: f"{line}\n", "pkg/x.py": ""},
            {"modes": {SCRIPT: 0o755}},
        )
        for line in ("#!python", "#!/bin/sh")
    ),
    Plant("program", None, {TOOL: PROGRAM}, {"modes": {TOOL: 0o755}}),
    Plant("pth with path", None, {"pkg.pth": "pkg/sub\n"}),
    Plant("data folder", None, {"pkg/__init__.py": "", "pkg/a.py": "", "pkg/a/x.txt": "x"}),
    Plant("namespace", None, {"nvidia/mine/__init__.py": ""}),
    Plant("extension", None, {EXTENSION: Code(MODULE)}, {"tag": CP312}),
    Plant(
        "two extensions",
        None,
        {EXTENSION: Code(MODULE), MUSL: Code(f"{MODULE}int other;\n")},
        {"tag": CP312},
    ),
    Plant(
        "free-threaded extension",
        None,
        {FREE: Code(MODULE)},
        {"tag": "cp313-cp313t-manylinux_2_39_x86_64"},
    ),
    Plant("public key", None, {"pkg/key.pem": "-----BEGIN PUBLIC KEY-----\n"}),
    Plant("two bounds", None, {}, {"requires": ("numpy>=1.2", "numpy<3")}),
    Plant("runtime of torch", None, {}, {"requires": ("torch==2.8.0", f"{RUNTIME}==12.8.*")}),
    Plant(
        "runtime of other", None, {}, {"requires": ("torch==2.8.0", "nvidia-cuda-runtime==13.*")}
    ),
    Plant("new nvJitLink", None, {LIB: NEW_LINK}, {"requires": (f"{LINK}>=12.8",)}),
    Plant(
        "function of the runtime",
        None,
        {EXTENSION: f"versions: needs cudaMalloc of {CUDART13}"},
        {"tag": CP312, "requires": (f"{RUNTIME13}==13.*",)},
    ),
    *(
        Plant(
            f"opened, {name}",
            None,
            {
                "pkg/__init__.py": f"{OPENED}from . import _C\n",
                EXTENSION: Code(MODULE, ("libx.so",)),
                LIB: Code(flags=flags),
                **more,
            },
            {"tag": CP312},
        )
        for name, flags, more in (
            ("with soname", ("-Wl,-soname,libx.so",), {}),
            (
                "needed by the other",
                (),
                {OTHER: Code(MODULE.replace("_C", "_D"), ("libx.so",), RPATH)},
            ),
        )
    ),
    Plant(
        "opened by a pattern",
        None,
        {
            "pkg/__init__.py": f"{PATTERN}from . import _C\n",
            EXTENSION: Code(MODULE, (CUDART,)),
        },
        {"tag": CP312, "requires": (RUNTIME,)},
    ),
    Plant(
        "not raised again",
        None,
        {
            "pkg/__init__.py": "try:\n    from . import _C\nexcept ImportError:\n    _C = None\n",
            EXTENSION: Code(MODULE, (CUDART,), RPATH12),
            OTHER: Code(MODULE.replace("_C", "_D")),
        },
        {"tag": CP312, "requires": (RUNTIME,)},
    ),
    Plant(
        "part of TensorRT",
        None,
        {EXTENSION: Code(MODULE, ("libnvinfer.so.10",))},
        {"tag": CP312, "name": "tensorrt_cu12_bindings"},
    ),
    Plant("own file in lib", None, {f"{DATA}/data/lib/libmine.so.1": Code()}),
    Plant(
        "all of cuDNN",
        None,
        {"pkg/libcudnn.so.9": Code(opening("libcudnn_ops.so")), "pkg/libcudnn_ops.so.9": Code()},
    ),
    *(
        Plant(
            f"folder of a requirement, {folder}",
            None,
            {EXTENSION: Code(MODULE, ("libmore.so",), rpath(folder))},
            {"tag": CP312, "requires": ("fastapi", "more-quantum-cu12", "pyscf")},
        )
        for folder in ("lib", "elsewhere/lib")
    ),
    Plant("own versions", None, {LIB: "versions: needs 1", "pkg/libv.so.1": "versions: has 1"}),
    Plant(
        "module of other name",
        None,
        {
            "pkg/load.py": "from importlib.util import spec_from_file_location\n",
            EXTENSION: Code("void *PyInit_other(void) { return 0; }\n"),
        },
        {"tag": CP312},
    ),
    Plant(
        "project with own name",
        None,
        {LIB: Code(needs=("libmore.so",), flags=("-Wl,-rpath,$ORIGIN",))},
        {"requires": ("pkg-core",)},
    ),
    Plant(
        "sibling by its name",
        None,
        {
            "pkg.libs/libone-0a1b2c3d.so.1": Code(opening("libtwo.so.1")),
            "pkg.libs/libtwo.so.1": Code("int two;\n"),
        },
    ),
    Plant(
        "one library for two Pythons",
        None,
        {EXTENSION: Code(MODULE), EXTENSION.replace("312", "311"): Code(MODULE)},
        {"tag": "cp311.cp312-none-manylinux_2_39_x86_64"},
    ),
    *(
        Plant(
            f"{name} with {tag} from {python}",
            None,
            {file: Code(calling(name) + MODULE, needs)},
            {"tag": f"{tag}-manylinux_2_39_x86_64", "python": python, "requires": requires},
        )
        for name, file, tag, python, needs, requires in (
            ("_PyObject_CallMethodIdObjArgs", PLAIN, "cp311.cp312-none", "<3.13", (), ()),
            ("PyObject_GetOptionalAttr", FREE, "cp313-cp313t", ">=3.13", (), ()),
            ("PyUnstable_Module_SetGIL", FREE, "cp313-cp313t", ">=3.13", (), ()),
            ("PyOther_Call", EXTENSION, "cp312-cp312", ">=3.12", ("libother.so",), ("other",)),
        )
    ),
    *(
        Plant(
            f"{name} of {' '.join(flags)}",
            None,
            {EXTENSION: Code(calling(name) + MODULE, flags=flags)},
            {"tag": CP312},
        )
        for name, flags in (
            ("_Znwm", ("-lstdc++",)),
            ("cosf", ()),
            ("__gcov_exit", ("-lgcov",)),
            ("__cxa_finalize", ()),
            ("_Unwind_Resume", ("-lgcc_s",)),
        )
    ),
    *(
        Plant(f"loaded: {code}", None, {**package(f"import ctypes\n{HERE}{code}\n"), LIB: Code()})
        for code in (
            "ctypes.CDLL(str(here / 'libx.so'))",
            "try:\n    ctypes.CDLL('libx.so')\nexcept OSError: ...",
            "ctypes.CDLL(os.path.join(here, 'libx.so'))\nctypes.CDLL('libx.so')",
            "ctypes.CDLL('libm.so.6')",
        )
    ),
    *(
        Plant(
            f"torch first, {name}",
            None,
            {**files, EXTENSION: Code(MODULE, ("libc10.so",), flags)},
            {"tag": CP312, "requires": ("torch==2.8.0", "torchvision")},
        )
        for name, files, flags in (
            ("here", package("import torch\nfrom . import _C\n"), ()),
            ("in a module", package("from . import a, _C\n", a="import torch\n"), ()),
            ("in a function", package("def f():\n    import torch\nf()\nfrom . import _C\n"), ()),
            ("by another", package("import torchvision\nfrom . import _C\n"), ()),
            ("by rpath", package("from . import _C\n"), rpath("torch/lib")),
        )
    ),
    Plant(
        "module without its source",
        None,
        {**package("from . import core\nfrom .core import f\n"), "pkg/core.pyc": "compiled"},
    ),
    Plant(
        "import from the package around",
        None,
        {
            **package("from . import sub\n", a="x = 1\n"),
            "pkg/sub/__init__.py": "from ..a import x\n",
        },
    ),
    *(Plant(f"sound {name}", None, files, {"tag": CP312, **wheel}) for name, files, wheel in QUIET),
    Plant("TLS for a preload", None, {LIB: Code(TLS.format(4000))}),
    Plant("small TLS", None, {LIB: Code(TLS.format(64))}),
    *(
        Plant(
            f"opened by Python as {text}",
            None,
            {
                "pkg/__init__.py": f"import ctypes\nnumber = 1\nctypes.CDLL({text})\n",
                "pkg/liby.so": Code(needs=("libx1.so.1",)),
                "pkg/lib/libx1.so.1": Code(MODULE, flags=("-Wl,-soname,libx1.so.1",)),
            },
        )
        for text in ("f'{__path__[0]}/lib/libx1.so.1'", "f'lib/libx{number}.so.1'")
    ),
    Plant(
        "one name in two folders",
        None,
        {
            f"pkg/cu{cuda}/{file}": Code(f"int x{cuda}{file[3]};", (need,), folders)
            for cuda in (12, 13)
            for file, need, folders in (
                ("liba.so", "libb.so", ("-Wl,-rpath,$ORIGIN",)),
                (
                    "libb.so",
                    f"libcublas.so.{cuda}",
                    rpath(f"../nvidia/{'cublas' if cuda == 12 else 'cu13'}/lib"),
                ),
            )
        },
        {"requires": ("nvidia-cublas-cu12", "nvidia-cublas")},
    ),
)


HIDDEN = MODULE.replace("void", '__attribute__((visibility("hidden"))) void', 1)
IMPORTS = package("from . import _C\n")
LOADER = "import ctypes, json\nfor name in json.load(open('/x'))['libs']: ctypes.CDLL(name)\n"
PLUGIN = Code(needs=(CUDART,))
UNUSED = '__asm__(".globl nowhere");\n' + MODULE
LOST = "Summary: a\nFast.\nRequires-Dist: numpy\n"
FOLDED = "Author: a,\n  b\nRequires-Dist: numpy\n"
ABI = Code(
    calling("aoti_torch_abi_version") + MODULE, (TORCH,), ("-Wl,-rpath,$ORIGIN/../torch/lib",)
)
HERE_LIB = "import ctypes, os\nctypes.CDLL(os.path.dirname(__file__) + '/libx.so')\n"


def requiring(*lines: str, **wheel: Any) -> dict[str, Any]:
    return {"requires": lines, "tag": CP312, **wheel}


# What a wheel says of itself, and what it requires, against each other and its content.
CONTRADICTIONS = (
    Plant("hidden init", error("library", EXTENSION), {EXTENSION: Code(HIDDEN), **IMPORTS}),
    *(
        Plant(f"overwriting {names[0]}", error(META, "METADATA"), {}, requiring(*names))
        for names in (
            ("cupy-cuda12x", "cupy-cuda13x"),
            ("onnxruntime", "onnxruntime-gpu"),
            ("rmm-cu12", "rmm-cu13"),
            ("nvidia-nccl-cu12", "nvidia-nccl-cu13"),
            ("torch==2.12.*", "nvidia-cudnn-cu12"),
            ("torch==2.6.0", "nvidia-cudnn-cu12==8.9.2.26"),
            ("torch==2.6.*", "triton>=3.3"),
        )
    ),
    Plant(
        "other CUDA", warning("mixed CUDA majors", "METADATA"), NEEDS13, requiring("cupy-cuda12x")
    ),
    Plant("no limit", note(NEEDED, "METADATA"), NEEDS13, requiring(f"{RUNTIME13}>=13.0")),
    Plant("lost headers", error(META, "METADATA"), {}, {"metadata": LOST}),
    Plant("lost text", warning(META, "METADATA"), {}, {"metadata": "Summary: a\nFast.\n"}),
    *(
        Plant(
            f"{version} and {line}", warning(rule, "METADATA"), {}, requiring(line, version=version)
        )
        for version, line, rule in (
            ("1.0+torch2.6", "torch==2.7.*", META),
            ("1.0+pt26cu124", "torch>=2.7", META),
            ("1.0+cu128", "nvidia-cudnn-cu13", "mixed CUDA majors"),
        )
    ),
    Plant(
        "other __version__",
        note("name", "pkg/__init__.py"),
        package('__version__ = "1.2.2"\n'),
    ),
    Plant(
        "older driver",
        warning("driver", "METADATA"),
        NEEDS13,
        requiring(f"{RUNTIME13}<14", metadata="\nNeeds NVIDIA driver 525 or newer.\n"),
    ),
    *(
        Plant(text, warning("archs", "METADATA"), {"pkg/k.ptx": PTX}, {"metadata": f"\n{text}\n"})
        for text in ("For Ampere GPUs and newer.", "Needs compute capability 8.0 or higher.")
    ),
    Plant(
        "nothing for every system",
        warning("library", "pkg-1.2.3-py3-none-any.whl"),
        {},
        {"tag": "py3-none-any"},
    ),
    Plant(
        "library for every system",
        error("platform tag", "pkg-1.2.3-py3-none-any.whl"),
        {LIB: Code(), **package(HERE_LIB)},
        {"tag": "py3-none-any"},
    ),
    Plant(
        "machine of another name",
        error("platform tag", "pkg-1.2.3-py3-none-manylinux_2_28_amd64.whl"),
        {LIB: Code()},
        {"tag": "py3-none-manylinux_2_28_amd64"},
    ),
    Plant(
        "first patch release",
        error(PY, "pkg/__init__.py"),
        package("import numpy\n"),
        {"requires": ("numpy; python_full_version == '3.12'",)},
    ),
    Plant(
        "hidden by Python",
        error(PY, "pkg/__init__.py"),
        {**package("from profile import gpu_timer\n"), "profile.py": "gpu_timer = 1\n"},
    ),
    Plant("sources' folder", error(PY, "src/pkg/__init__.py"), {"src/pkg/__init__.py": ""}),
    Plant(
        "in another folder",
        error(NEEDED, EXTENSION),
        {EXTENSION: Code(MODULE, ("libone.so.1",)), f"{DATA}/data/lib/libone.so.1": Code()},
    ),
    Plant(
        "recent CPU",
        error("platform tag", EXTENSION),
        {EXTENSION: Code(MODULE, flags=("-Wl,-z,x86-64-v4",))},
        {"tag": CP312},
    ),
    Plant(
        "copy that opens others",
        error("grafted library", "pkg/libnvrtc.so.13"),
        {"pkg/libnvrtc.so.13": Code(opening("libnvrtc-builtins.so.13.0"))},
    ),
    Plant(
        "modules for two CUDAs",
        warning("mixed CUDA majors", "pkg-1.2.3-cp312-cp312-manylinux_2_39_x86_64.whl"),
        {
            EXTENSION: Code(MODULE, (CUDART13,), RPATH13),
            EXTENSION.replace("_C", "_ops"): Code(MODULE.replace("_C", "_ops"), (CUDART,)),
        },
        requiring(RUNTIME13),
    ),
    Plant(
        "framework of another module",
        error(NEEDED, EXTENSION),
        {
            EXTENSION: Code(MODULE, (CUDART,)),
            EXTENSION.replace("_C", "_pt"): Code(MODULE.replace("_C", "_pt"), (TORCH,)),
        },
        {"tag": CP312},
    ),
    Plant(
        "one file for PyTorch",
        warning("framework ABI", "pkg/_C_torch212.so"),
        {"pkg/_C_torch212.so": ABI},
        requiring("torch"),
    ),
    Plant(
        "library that code opens",
        error(NEEDED, LIB),
        {LIB: PLUGIN, **package(HERE_LIB)},
        {"requires": (RUNTIME,)},
    ),
)

SSH_KEY = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAAB\n"
)
SSH_KEY += "QyNTUxOQAAACD8x3kT" * 8 + "\n"
GOMP, IOMP = "libgomp.so.1", "libiomp5.so"
OPENMP: dict[str, str | Code] = {
    "pkg/libgomp.so.1": Code(),
    "pkg/libiomp5.so": Code(),
}
UMATH = MODULE + 'const char *name = "numpy.core._multiarray_umath";\n'
BOTH_UMATH = UMATH + 'const char *other = "numpy._core._multiarray_umath";\n'
DENORMALS = """static void set(void) {
    unsigned mode;
    __asm__ volatile("stmxcsr %0" : "=m"(mode));
    mode |= 0x8040;
    __asm__ volatile("ldmxcsr %0" : : "m"(mode));
}
"""
FAST_MATH = "__attribute__((constructor)) " + DENORMALS
PACKED = Code(
    "static int a; int *p = &a;\n" + MODULE, (), ("-nostdlib", "-Wl,-z,pack-relative-relocs")
)
MKL = Code(MODULE, ("libmkl_rt.so.2",))
NUMPY_23 = Code(
    BOTH_UMATH + 'const char *p = "against NumPy C-API version 0x%x (NumPy 2.3) but";\n'
)
SUBPROCESS = "import subprocess\n"
NVCC = f"{SUBPROCESS}x = subprocess.check_output(['nvcc', '--version'])\n"
PTH_FINDER = "import _finder; _finder.install()\n"
FINDER = 'MAPPING = {"pkg": "/home/ci/src/pkg"}\n'
INCLUDING = '#ifndef A\n#define A\n#include "vec.cuh"\n#endif\n'
COMPILING = f"{HERE}{LOAD}def ops(): return load(name='k', sources=[here / 'k.cu'])\n"


def group(text: str, code: str = "") -> dict[str, str | Code]:
    return {ENTRY: f"{text}\n", **package("", plug=code)}


ENVIRON = "import os\n"
TOOL_NEEDS = Code("int main(void) { return 0; }\n", ("libone.so.1",), is_program=True)


def of_cuda(major: int) -> dict[str, str | Code]:
    check = f"import torch\nassert torch.version.cuda.startswith('{major}.')\n"
    return {LIB: Code(needs=(CUDART13,), flags=RPATH13), **package(check)}


CALLING = "import ctypes, os\nlib = ctypes.CDLL(os.path.dirname(__file__) + '/libx.so')\nx = lib."
PRELOADING = "import os; os.environ.setdefault('LD_PRELOAD', 'liba.so')\n"


def script(folder: str) -> dict[str, str | Code]:
    flags = (f"-Wl,-rpath,$ORIGIN/../lib/{folder}/site-packages/pkg",)
    return {"pkg/libone.so.1": Code(), SCRIPT: replace(TOOL_NEEDS, flags=flags)}


STARTED = {"modes": {SCRIPT: 0o755}, "tag": CP312}

ANY: dict[str, Any] = {"tag": "py3-none-any"}
# Each with a sound wheel of `FIXED` that looks like it.
BROKEN = (
    *(
        Plant(f"compiles {code[:30]}", error(PY, "pkg/__init__.py"), package(f"{code}\n"))
        for code in (
            "x = 1\nfrom __future__ import annotations",
            "def f():\n    return await g()",
            "return 1",
            "def f(x):\n    global x",
            "def f(a, a): ...",
            "try: ...\nfinally: break",
        )
    ),
    *(
        Plant(
            f"{code} before", breach(PY, "pkg/__init__.py"), package(f"{code}\n"), {"python": old}
        )
        for code, old, breach in (
            ("import datetime\nx = datetime.UTC", ">=3.9", error),
            ("import importlib as i\nx = i.find_loader('os')", ">=3.8", warning),
            ("import inspect\nx = inspect.getargspec", ">=3.11", error),
            ("import string\nx = string.letters", ">=3.8", error),
            ("x = 'libfoo'.removeprefix('lib')", ">=3.8", error),
            ("x = list(zip([1], strict=True))", ">=3.8", warning),
            (
                "import dataclasses\n@dataclasses.dataclass(slots=True)\nclass A: ...",
                ">=3.8",
                warning,
            ),
            ("x = {} | {}", ">=3.8", warning),
            ("def f(x): return zip(x, strict=True)", ">=3.8", note),
        )
    ),
    *(
        Plant(f"{code} anywhere", warning(PY, "pkg/__init__.py"), package(f"{code}\n"), ANY)
        for code in ("import msvcrt", "import ctypes\nx = ctypes.windll.user32")
    ),
    Plant("itself", error(META, "METADATA"), {}, {"requires": ("pkg==2.0",)}),
    Plant("triton", warning(PY, "pkg/__init__.py"), package("import triton\n")),
    Plant("Colab", warning(PY, "pkg/__init__.py"), package("from google.colab import drive\n")),
    Plant(
        "folder like a project's",
        error(TOP, "torch"),
        {"torch/__init__.py": ""},
        {"name": "torchdir"},
    ),
    Plant(
        "prefix",
        error(PY, "lib/python3.12/site-packages/pkg/__init__.py"),
        {"lib/python3.12/site-packages/pkg/__init__.py": ""},
    ),
    Plant(
        "letter case anywhere",
        warning("archive", "pkg/a.py"),
        {"pkg/A.py": "1", "pkg/a.py": ""},
        ANY,
    ),
    *(
        Plant(name, warning("build path", name), {name: "", **package("")})
        for name in ("pkg/.a.py.swp", "pkg/a.py~", "pkg/#a.py#", "hs_err_pid12.log")
    ),
    Plant(
        "data of a build service",
        warning("build path", LIB),
        {LIB: Code('const char *p = "/home/jenkins/a/b.bin";\n')},
    ),
    Plant(
        "pth that fetches", warning(START, "pkg.pth"), {"pkg.pth": "import os; os.system('x')\n"}
    ),
    Plant("OpenSSH key", warning("secret", "pkg/key"), {"pkg/key": SSH_KEY}),
    *(
        Plant(f"{line} of {code}", error(PY, "entry_points.txt"), entry(line, code))
        for line, code in (
            ("a = .cli:main", "def main(): ...\n"),
            ("a = pkg.cli:main", "async def main(): ...\n"),
            ("a = pkg.cli:main", "def main(argv): ...\n"),
            ("a = pkg.cli:main", "def main(*, argv): ...\n"),
            ("a = pkg.cli:main", "main = '1.0'\n"),
        )
    ),
    Plant(
        "plugin that isn't there",
        error(PY, "entry_points.txt"),
        {ENTRY: "[jax_plugins]\na = jax_plugins.pkg:f\n", **package("")},
    ),
    Plant(
        "hidden extension",
        warning(PY, EXTENSION),
        {EXTENSION: Code(MODULE), "pkg/_C/__init__.py": ""},
    ),
    Plant(
        "old byte code", error("byte code", "pkg/a.pyc"), {"pkg/a.pyc": "o\r\r\n"}, {"tag": CP312}
    ),
    Plant(
        "two OpenMP runtimes",
        warning("grafted library", f"pkg-1.2.3-{CP312}.whl"),
        {**OPENMP, LIB: Code(needs=(GOMP, IOMP), flags=rpath("pkg"))},
        {"tag": CP312},
    ),
    *(
        Plant(
            f"NumPy 1 and {line}",
            breach("undefined symbol", EXTENSION),
            {EXTENSION: Code(UMATH)},
            requiring(line),
        )
        for line, breach in (("numpy>=2", error), ("numpy>=1.22", warning))
    ),
    Plant("Windows", error(PY, "pkg/__init__.py"), package("import winreg\n"), {"tag": CP312}),
    Plant(
        "variable", error(PY, "pkg/__init__.py"), package(f"{ENVIRON}x = os.environ['CUDA_PATH']\n")
    ),
    *(
        Plant(code[-50:], breach(PY, "pkg/__init__.py"), package(f"{code}\n"), requiring(*lines))
        for code, breach, *lines in (
            ("import torch\nx = torch.cuda.get_device_capability(0)", warning, "torch"),
            ("import torch\nif torch.cuda.current_device(): ...", warning, "torch"),
            ("import torch\ndef f(x=torch.cuda.get_device_name()): ...", warning, "torch"),
            ("import torch\nassert torch.cuda.is_available()", warning, "torch"),
            ("import os as o\nx = o.path.join(o.environ['CUDA_HOME'], 'a')", error),
            ("import os, sys\nsys.setdlopenflags(os.RTLD_GLOBAL)", warning),
            ("from dataclasses import dataclass as d\n@d\nclass A:\n    x: list = []", error),
            ("import shutil as s, sys as t\nif s.which('nvcc') is None: t.exit(1)", warning),
            ("import sys\ntry: import numpy\nexcept ImportError: sys.exit()", warning),
            (
                "import os\ntry: import numpy\nexcept ImportError: os.system('pip install a')",
                warning,
            ),
            ("import base64 as b\nexec(b.b64decode('cHJpbnQoMSk='))", warning),
            ("import os\nos.makedirs('/tmp/pkg/cache')", warning),
            ("x = open('/proc/driver/nvidia/version').read()", warning),
            ("import sys as s\nif float(s.version[:3]) < 3.8: raise ImportError", error),
            ("import scipy\nif scipy.__version__ < '1.9': raise ImportError", error, "scipy"),
            ("import argparse\nx = argparse.ArgumentParser()\ny = x.parse_args()", error),
            ("import numpy as a\nx = a.float_", error, "numpy>=2"),
            (f"{LOAD}def f(): return load('k', ['k.cu'])", warning, "torch"),
            ("import torch\nx = torch.zeros(1, device='cuda:0')", warning, "torch"),
            ("from pynvml import nvmlInit\nnvmlInit()", warning, "nvidia-ml-py"),
            ("import jax\nx = jax.devices('gpu')", warning, "jax"),
            ("from cupy.cuda import Device\nx = Device().compute_capability", warning, "cupy"),
            ("import pycuda.autoinit", warning, "pycuda"),
            (NVCC, warning),
            (f"{SUBPROCESS}def f(): subprocess.run('nvidia-smi')\nf()", warning),
            (f"{ENVIRON}os.environ['CUDA_VISIBLE_DEVICES'] = '0'", warning),
            ("from os import environ\nenviron['JAX_PLATFORMS'] = 'cpu'", warning),
            (f"{ENVIRON}os.environ.setdefault('CUDA_LAUNCH_BLOCKING', '1')", note),
            ("from jax.lib import xla_client", warning, "jax>=0.4"),
            ("from jax import tree_map", error, "jax>=0.6"),
            ("from cupy import cusparse", warning, "cupy-cuda12x"),
            ("import jax.numpy as jnp\ndef f(): return jnp.fix(1)", warning, "jax>=0.4"),
        )
    ),
    Plant(
        "no function", error(PY, "pkg/__init__.py"), {LIB: Code(), **package(CALLING + "none()")}
    ),
    Plant("torch.version.cuda", error(PY, "pkg/__init__.py"), of_cuda(12), requiring("torch")),
    Plant("pth with a library", warning(START, "a.pth"), {"a.pth": PRELOADING}, ANY),
    Plant(
        "aside",
        warning(PY, "other/__init__.py"),
        {"pkg/__init__.py": "", "other/__init__.py": "import einops\n"},
    ),
    *(
        Plant(text.replace("\n", " "), error(PY, "entry_points.txt"), group(text, code))
        for text, code in (
            ("[jax_plugins]\na = pkg.plug", "def initialise(): ...\n"),
            ("[triton.backends]\na = pkg.plug", "compiler = 1\n"),
            ("[torch.backends]\na = pkg.plug:f", "def f(device): ...\n"),
            ("[numba_extensions]\na = pkg.plug:f", "def f(): ...\n"),
        )
    ),
    *(
        Plant(f"sources of {name}", breach(META, "METADATA"), {}, requiring(name))
        for name, breach in (("cupy>=13", warning), ("nvidia-pyindex", warning), ("pycuda", note))
    ),
    Plant(
        "no header",
        warning(PY, "pkg/k.cu"),
        {"pkg/k.cu": INCLUDING, **package(COMPILING)},
        requiring("torch", "ninja"),
    ),
    *(
        Plant(name, error(START, name), {name: text, "_finder.py": FINDER}, ANY)
        for name, text in (
            ("__editable__.pkg-1.2.3.pth", PTH_FINDER),
            ("_pkg_editable.pth", PTH_FINDER),
            ("pkg-editable.pth", "/home/ci/src/pkg\n"),
        )
    ),
    Plant(
        "NumPy 2.3 and numpy>=1.26",
        warning("undefined symbol", EXTENSION),
        {EXTENSION: NUMPY_23},
        requiring("numpy>=1.26"),
    ),
    Plant("MKL", error(NEEDED, EXTENSION), {EXTENSION: MKL}, {"tag": CP312}),
    *(
        Plant(text[:40], warning(META, "METADATA"), {}, {"metadata": f"{text}\n"})
        for text in (
            "Project-URL: https://a.example",
            f"Project-URL: {'a' * 33}, https://a.example",
            f"Summary: {'a' * 513}",
        )
    ),
    Plant(
        "no such tag",
        error("platform tag", "pkg-1.2.3-py3-none-manylinux2_34_x86_64.whl"),
        {LIB: Code()},
        {"tag": "py3-none-manylinux2_34_x86_64"},
    ),
    Plant(
        "part of glibc",
        error("grafted library", "pkg.libs/libpthread.so.0"),
        {"pkg.libs/libpthread.so.0": Code()},
    ),
    Plant("empty line", error(META, "METADATA"), {}, {"metadata": f"Summary: a\n\n{LOST[11:]}"}),
    Plant("fast math", warning("library", LIB), {LIB: Code(FAST_MATH)}),
    Plant(
        "packed without a mark", error("platform tag", EXTENSION), {EXTENSION: PACKED}, {"tag": OLD}
    ),
    Plant("long name", error("archive", f"pkg/{'a' * 256}"), {f"pkg/{'a' * 256}": ""}),
    Plant("script of another Python", warning(NEEDED, SCRIPT), script("python3.11"), STARTED),
    Plant(
        "need of one module",
        error(NEEDED, EXTENSION),
        {EXTENSION: Code(MODULE, ("libone.so.1",)), "pkg/liby.so": Code(), **IMPORTS},
        {"tag": CP312},
    ),
)
FIXED = (
    Plant("function", None, {LIB: Code(), **package(CALLING + "answer()")}),
    Plant("torch.version.cuda of it", None, of_cuda(13), requiring("torch>=2.11")),
    Plant("submodule", None, package("from . import a\ndef f(): return a.b\n", a="b = 1\n")),
    *(
        Plant(f"compiles, too: {code[:30]}", None, package(f"{code}\n"))
        for code in (
            "from __future__ import annotations\nx = 1",
            "async def f():\n    return await f()",
            "for x in ():\n    try: ...\n    finally: x = 1",
            "def f(x):\n    def g():\n        global x",
        )
    ),
    *(
        Plant(f"{code} with {old}", None, package(f"{code}\n"), {"python": old})
        for code, old in (
            ("import datetime\nx = datetime.UTC", ">=3.11"),
            ("import datetime\nif hasattr(datetime, 'UTC'):\n    x = datetime.UTC", ">=3.9"),
            ("import datetime\ndatetime.UTC = 1\nx = datetime.UTC", ">=3.9"),
            ("from datetime import datetime\nx = getattr(datetime, 'UTC', 1)", ">=3.9"),
            ("import inspect\ninspect = 1\ndef f(inspect): return inspect.getargspec", ">=3.11"),
            ("import inspect\ntry: x = inspect.getargspec\nexcept AttributeError: ...", ">=3.8"),
            ("def zip(strict): ...\nx = zip(strict=True)", ">=3.8"),
            ("x = {1} | {2}", ">=3.8"),
        )
    ),
    *(
        Plant(f"{code} for Windows", None, package(f"{code}\n"), {**ANY, **more})
        for code, more in (
            ("import os\nif os.name == 'nt':\n    import msvcrt", {}),
            (
                "import msvcrt",
                {"metadata": "Classifier: Operating System :: Microsoft :: Windows\n"},
            ),
        )
    ),
    Plant("itself in its own release", None, {}, {"requires": ("pkg==1.2.3",)}),
    Plant("triton by torch", None, package("import triton\n"), {"requires": ("torch",)}),
    Plant("pth of Python's own", None, {"pkg.pth": "import sys; sys.modules.get('pkg')\n"}),
    Plant("hidden file", None, {"pkg/.swp": "", "pkg/core": "", **package("")}),
    *(
        Plant(f"entry point of {code}", None, entry("a = pkg.cli:main", code))
        for code in (
            "def main(argv=None): ...\n",
            "def main(*args, x=1): ...\n",
            "@click\ndef main(argv): ...\n".replace("@click", "def click(f): ...\n@click"),
            "def main(argv): ...\nmain = print\n",
        )
    ),
    *(
        Plant(f"plugin {text}", None, {ENTRY: f"{text}\n", **package("")}, wheel)
        for text, wheel in (
            ("[x]\na = host.pkg:f", {"requires": ("host",)}),
            ("[host.x]\na = host.pkg:f", {}),
            ("[x]\na = json:dumps", {}),
        )
    ),
    Plant(
        "part of a family",
        None,
        {"host_pkg-1.2.3.dist-info/entry_points.txt": "[x]\na = host.pkg:f\n", "own.py": ""},
        {"name": "host_pkg"},
    ),
    Plant("byte code", None, {"pkg/a.pyc": "o\r\r\n"}, {"tag": CP312.replace("312", "310")}),
    Plant(
        "extension beside stubs",
        None,
        {EXTENSION: Code(MODULE), "pkg/_C/a.pyi": ""},
        {"tag": CP312},
    ),
    Plant(
        "one OpenMP runtime",
        None,
        {**OPENMP, LIB: Code(needs=(GOMP,), flags=rpath("pkg"))},
        {"tag": CP312},
    ),
    Plant("NumPy 1", None, {EXTENSION: Code(UMATH)}, requiring("numpy<2")),
    Plant("NumPy 1 and 2", None, {EXTENSION: Code(BOTH_UMATH)}, requiring("numpy>=1.22")),
    Plant(
        "Windows, perhaps",
        None,
        package("try: import winreg\nexcept ImportError: ...\n"),
        {"tag": CP312},
    ),
    *(
        Plant(f"variable, {code}", None, package(f"{ENVIRON}{code}\n"))
        for code in (
            "x = os.environ.get('CUDA_PATH')",
            "x = os.environ['HOME']",
            "def f(): return os.environ['CUDA_PATH']",
            "os.environ['CUDA_PATH'] = '1'",
            "if 'CUDA_PATH' in os.environ: ...\nx = os.environ['CUDA_PATH']",
        )
    ),
    *(
        Plant(code[-50:], None, package(f"{code}\n"), requiring(*lines))
        for code, *lines in (
            ("import torch\ndef f(): return torch.cuda.current_device()", "torch"),
            ("import torch\nx = torch.cuda.is_available() and torch.cuda.init()", "torch"),
            ("import torch\ntry: torch.cuda.init()\nexcept RuntimeError: ...", "torch"),
            ("import os as o\ndef f(): return o.path.join(o.environ['CUDA_HOME'], 'a')",),
            ("import sys\na = sys.getdlopenflags()\nsys.setdlopenflags(1)\nsys.setdlopenflags(a)",),
            ("from dataclasses import dataclass as d\n@d\nclass A:\n    x: tuple = ()",),
            ("import sys\nif __name__ == '__main__': sys.exit(1)",),
            ("import sys\ntry: import numpy\nexcept ImportError:\n    def f(): sys.exit()",),
            ("import base64 as b\ndef f(): exec(b.b64decode('cHJpbnQoMSk='))",),
            ("import os\ndef f(): os.makedirs('/tmp/pkg/cache')",),
            ("import sys as s\nif s.version[:1] < '3': raise ImportError",),
            ("import scipy\nif scipy.__version__ < '1.9': raise ImportError", "scipy<1.16"),
            ("import torch\nif torch.__version__ < '2.4': raise ImportError", "torch"),
            ("import argparse\nx = argparse.ArgumentParser()\ny = x.parse_args([])",),
            ("import numpy as a\nx = a.float64", "numpy>=2"),
            (f"{LOAD}def f(): return load('k', ['k.cu'])", "torch", "ninja"),
            ("import torch\nx = torch.zeros(1, device='cpu')", "torch"),
            ("import jax\nx = jax.devices()", "jax"),
            ("import pynvml", "nvidia-ml-py"),
            (f"{SUBPROCESS}import shutil\nif shutil.which('nvcc'):\n    subprocess.run('nvcc')",),
            (f"{SUBPROCESS}x = subprocess.run('nvcc --version', shell=True)",),
            (f"{SUBPROCESS}x = subprocess.run(['ninja', '--version'])", "ninja"),
            (f"{ENVIRON}os.environ['CUDA_LAUNCH_BLOCKING'] = '0'",),
            (f"{ENVIRON}os.environ['JAX_PLATFORMS'] = os.environ.get('JAX_PLATFORMS', '')",),
            ("from jax.lib import xla_client", "jax>=0.4,<0.9"),
            ("from jax import config", "jax>=0.4"),
            ("from cupy import cusparse", "cupy-cuda12x<14"),
        )
    ),
    *(
        Plant(text.replace("\n", " "), None, group(text, code))
        for text, code in (
            ("[jax_plugins]\na = pkg.plug", "def initialize(): ...\n"),
            ("[triton.backends]\na = pkg.plug", "compiler = driver = 1\n"),
            ("[torch.backends]\na = pkg.plug:f", "def f(): ...\n"),
            ("[numba_extensions]\ninit = pkg.plug:f", "def f(): ...\n"),
        )
    ),
    *(
        Plant(f"header {name}", None, {"pkg/k.cu": text, **package(COMPILING), **more}, wheel)
        for wheel in (requiring("torch", "ninja"),)
        for name, text, more in (
            ("here", INCLUDING, {"pkg/include/vec.cuh": ""}),
            ("of PyTorch", '#include "torch/extension.h"\n', {}),
            ("of a choice", '#pragma once\n#ifdef B\n#include "b.cuh"\n#endif\n', {}),
        )
    ),
    Plant("code that nothing compiles", None, {"pkg/k.cu": INCLUDING, **package("")}),
    *(
        Plant(f"NumPy 2.3 and {line}", None, {EXTENSION: NUMPY_23}, requiring(line))
        for line in ("numpy>=2.3", "numpy")
    ),
    Plant("MKL, required", None, {EXTENSION: MKL}, requiring("mkl")),
    *(
        Plant(text[:40], None, package(""), {"metadata": f"{text}\n"})
        for text in ("Project-URL: Home, https://a.example", f"Summary: {'a' * 512}")
    ),
    Plant("math that is called", None, {LIB: Code(DENORMALS + "void *f(void) { return set; }\n")}),
    Plant("packed relocations of today", None, {EXTENSION: PACKED}, {"tag": CP312}),
    Plant("text", None, package(""), {"metadata": "\nText.\n\nRequires-Dist: numpy\n"}),
    Plant("name", None, {f"pkg/{'a' * 255}": ""}),
    Plant("script of its Python", None, script("python3.12"), STARTED),
    Plant(
        "program that gets its bit",
        None,
        {TOOL: PROGRAM, **package("import os\nos.chmod('tool', 0o755)\n")},
    ),
    Plant(
        "Python's own before the wheel's",
        None,
        package(
            "import logging\nfrom . import a\n",
            a="from . import logging\nlogging.info(1)\n",
            logging="info = 1\n",
        ),
    ),
    Plant(
        "one Python without its ABI",
        None,
        {
            EXTENSION: Code(calling("_PyThreadState_UncheckedGet") + MODULE),
            **package("import cgi\nfrom . import _C\n"),
        },
        {"tag": CP312.replace("312-cp312", "312-none")},
    ),
)

CONSISTENT = (
    *(
        Plant(f"beside each other {names[0]}", None, {}, requiring(*names))
        for names in (
            ("cupy-cuda13x", "onnxruntime-gpu"),
            ("tensorrt", "tensorrt-cu13"),
            ("cuquantum-cu13", "cuquantum-python-cu13"),
            ("nvidia-cublas-cu12", "nvidia-cublas"),
            ("torch", "nvidia-cudnn-cu12"),
            ("torch==2.6.0", "nvidia-cudnn-cu12==9.1.*"),
            ("torch>=2.5,<2.7", "triton>=3.1"),
            ("torch>=2.6", "nvidia-cudnn-cu12==8.9.2.26"),
        )
    ),
    *(
        Plant(f"limited {line}", None, NEEDS13, requiring(line))
        for line in (f"{RUNTIME13}>=13,<14", f"{RUNTIME13}==13.*", f"{RUNTIME13}~=13.1")
    ),
    Plant("same CUDA", None, NEEDS13, requiring("cupy-cuda13x", f"{RUNTIME13}<14")),
    Plant("folded header", None, package("import numpy\n"), {"metadata": FOLDED}),
    *(
        Plant(f"{version} for {line}", None, {}, requiring(line, version=version))
        for version, line in (
            ("1.0+torch2.6", "torch==2.6.*"),
            ("1.0+pt26cu124", "torch>=2.6"),
            ("1.0+cu130", "nvidia-cudnn-cu13"),
        )
    ),
    *(
        Plant(text, None, NEEDS13, requiring(f"{RUNTIME13}<14", metadata=f"\n{text}\n"))
        for text in (
            "Needs driver 580 or newer.",
            "Driver: 525.60.13+ for CUDA 12, 580.65.06+ for CUDA 13.",
            "CUDA 12: driver 525 or newer.\nCUDA 13: 580 or newer.",
            "Driver 525 has a fault.",
        )
    ),
    *(
        Plant(text, None, {"pkg/k.ptx": PTX}, {"metadata": f"\n{text}\n"})
        for text in ("For Hopper GPUs and newer.", "Faster than on Ampere.")
    ),
    Plant("nothing but a script", None, {ENTRY: "[x]\na = json\n"}, {"tag": "py3-none-any"}),
    Plant(
        "libraries for each system",
        None,
        {LIB: Code(), "pkg/x.dll": "MZ", **package(HERE_LIB)},
        {"tag": "py3-none-manylinux_2_39_x86_64"},
    ),
    Plant(
        "Python's own name",
        None,
        {**package("from profile import run\n"), "pkg/profile.py": "gpu_timer = 1\n"},
    ),
    *(
        Plant(f"{code}binds core", None, package(f"{code}x = core.f\n", core="f = 1\n"))
        for code in ("from .core import *\n", "from .core import f\n", "import pkg.core\n")
    ),
    Plant(
        "core in a choice",
        None,
        package("if __name__:\n    from .core import f\nx = core.f\n", core="f = 1\n"),
    ),
    Plant("symbol that nothing uses", None, {EXTENSION: Code(UNUSED)}, {"tag": CP312}),
    Plant(
        "list of libraries",
        None,
        {
            EXTENSION: Code(MODULE, (CUDART,)),
            "pkg/list.json": f'{{"libs": ["{CUDART}"]}}',
            **package(LOADER),
        },
        requiring(RUNTIME),
    ),
    Plant("plugin", None, {LIB: PLUGIN, "pkg/liby.so": Code()}, {"requires": (RUNTIME,)}),
    Plant(
        "plugin after a module",
        None,
        {
            EXTENSION: Code(MODULE, (CUDART,), RPATH12),
            LIB: PLUGIN,
            **package("from . import _C\n" + HERE_LIB),
        },
        requiring(RUNTIME),
    ),
    Plant(
        "the system's library by name",
        None,
        {
            "pkg.libs/libone-0a1b2c3d.so.1": Code(opening("libnuma.so")),
            "pkg.libs/libnuma-0a1b2c3d.so.1": Code("int numa;\n"),
        },
    ),
    Plant(
        "variants for PyTorch",
        None,
        {f"pkg/_C_torch2{minor}.so": ABI for minor in (11, 12)},
        requiring("torch"),
    ),
    Plant(
        "framework that code imports",
        None,
        {EXTENSION: Code(MODULE, (CUDART, TORCH)), **package("import torch\nfrom . import _C\n")},
        requiring("torch==2.8.*"),
    ),
)

TORCHED: dict[str, Any] = {"requires": ("torch",)}
BY_NAME = "import importlib\n"
DATACLASS = "import dataclasses\n@dataclasses.dataclass\nclass A:\n"
MAIN = "def main(): ...\n"
# What an import does, and what it can't do: each code with the finding about it, and its like.
AT_IMPORT = tuple(
    (code, breach, wheel)
    for breach, wheel, codes in (
        (
            warning,
            {},
            (
                "from urllib.request import urlopen\nurlopen('https://a.example')",
                "import os\nos.system('pip install numpy')",
                "import os\nos.environ.update({'CUDA_VISIBLE_DEVICES': '0'})",
                "import os\nos.chdir('/tmp')",
                "import random\nrandom.seed(0)",
                "import multiprocessing as m\nm.Process(target=print).start()",
                f"{HERE}(here / 'a.txt').write_text('x')",
                f"{HERE}os.makedirs(here / 'cache', exist_ok=True)",
                "open('pkg.log', 'w')",
                "import ctypes\nctypes.CDLL('/usr/local/cuda/lib64/libx.so')",
                "import sys\nsys.path.insert(0, '/home/me/src')",
                "import shutil\nassert shutil.which('nvcc')",
                "import sys\nif sys.version_info < (3, 13):\n    raise RuntimeError",
            ),
        ),
        (
            warning,
            TORCHED,
            (
                "import torch\nx = torch.zeros(1).cuda()",
                "import torch\nm = torch.nn.Linear(2, 2)\nm.to('cuda')",
                "import torch\ntorch.set_default_dtype(torch.float64)",
                "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True",
                "import torch.utils.cpp_extension as c\nimport os\nos.path.join(c.CUDA_HOME, 'a')",
                "from torch.utils.cpp_extension import load_inline\nm = load_inline('m', '')",
            ),
        ),
        (
            error,
            {},
            (
                "import sys\nsys.exit(1)",
                "import os\nif 1: ...\nraise ImportError('broken')",
                "x = input('licence?')",
                "import os\nx = os.path.join(os.environ.get('CUDA_HOME'), 'bin')",
                "x = open('/home/me/x.json').read()",
                f"{BY_NAME}importlib.import_module('pkg._C')",
                f"{BY_NAME}importlib.import_module('._C', __package__)",
                "__import__('pkg._C')",
                "def f(a): ...\nf()",
                "def f(a): ...\nf(1, 2)",
                "x = 1 / 0",
                "x = 'a' + 1",
                "x = int('1.2')",
                "import re\nx = re.compile('(')",
                f"{DATACLASS}    x: list = []",
                f"{DATACLASS}    x: int = 1\n    y: int",
                "class A:\n    __slots__ = ('x',)\n    x = 1",
                "from os import nothing_here",
                "from typing import Lisst",
                "import os\nx = os.getcwdx()",
                "def f(a: Missing): ...",
                "class A:\n    x: Missing = 1",
                "def f(a): ...\nf(b=1)",
                "a, b = 1, 2, 3",
                "x = '%d' % 'a'",
                "x = open('config.yaml').read()",
                "assert False",
            ),
        ),
        (
            error,
            {"tag": CP312},
            ("import sys\nif sys.platform != 'win32':\n    raise ImportError",),
        ),
        (error, {"tag": CP312}, ("import platform\nassert platform.machine() == 'aarch64'",)),
        (
            note,
            {},
            (
                "import warnings\nwarnings.filterwarnings('ignore')",
                "import os\nos.environ['NCCL_DEBUG'] = 'INFO'",
                "def f():\n    breakpoint()",
                "print('hello')",
            ),
        ),
        (note, TORCHED, ("import torch\ntorch.load = None",)),
        (error, {"python": ">=3.9"}, ("X = int | None",)),
        (error, {"python": ">=3.8"}, ("X = list[int]",)),
        (note, {}, ("def f():\n    return undefined_name",)),
        (warning, {"requires": ("scipy",)}, ("from scipy.integrate import simps",)),
        (warning, {"requires": ("pillow>=9",)}, ("from PIL.Image import ANTIALIAS",)),
        (error, {"requires": ("setuptools>=82",)}, ("import pkg_resources",)),
        (error, {"requires": ("cuda-python>=13",)}, ("from cuda import cudart",)),
        (warning, TORCHED, ("def f():\n    from torch._six import inf",)),
    )
    for code in codes
)
NOT_AT_IMPORT = tuple(
    (code, wheel)
    for wheel, codes in (
        (
            {},
            (
                "from urllib.request import urlopen\ndef f(): urlopen('https://a.example')",
                "import os\ndef f(): os.system('pip install numpy')",
                "import os\nif os.getenv('PKG_GET'): os.system('pip install numpy')",
                "import random\nrandom.Random(0)",
                f"{HERE}def f(): (here / 'a.txt').write_text('x')",
                f"{HERE}os.makedirs(here, exist_ok=True)",
                "import os\nif os.environ.get('DEBUG'): open('pkg.log', 'w')",
                "import sys\nif sys.version_info < (3, 9):\n    raise RuntimeError",
                "import sys\nif sys.version_info[:2] < (3, 7):\n    sys.exit(1)",
                "import sys\nif sys.platform == 'win32':\n    raise ImportError",
                "import os\nx = os.path.join(os.environ.get('CUDA_HOME', '/usr'), 'bin')",
                "def f(a, *b): ...\nf(1, 2)",
                "def f(a=1): ...\nf()",
                "x = 'a' + 'b'",
                f"{DATACLASS}    x: list = dataclasses.field(default_factory=list)",
                "import re\nx = re.compile(r'(?i)a')",
                "from os import path, getcwd\nfrom xml import dom",
                "import os, collections.abc\nx = os.sep\ny = collections.abc.Mapping",
                "def input(x): ...\ninput('x')",
                "def exit(): ...\nexit()",
                "from __future__ import annotations\ndef f(a: Missing): ...",
                "class A:\n    class B: ...\n    def f(self, a: B): ...",
                "class A:\n    def f(self, a: 'A'): ...",
                "def f(a): ...\nf(a=1)",
                "a, *b = 1, 2, 3",
                "x = '%s' % 'a'",
                "def f():\n    def g(): return x\n    x = g\n    return [y for y in x]",
                "def f():\n    return later\nlater = 1",
                "X = 1 | 2\nY = [1][0]",
                "import typing\n" + DATACLASS + "    x: typing.ClassVar[dict] = {}",
            ),
        ),
        (TORCHED, ("import torch\nx = torch.zeros(1).to('cpu')",)),
        (TORCHED, ("import torch\ndef f(m): return m.to('cuda')",)),
        ({"requires": ("scipy<1.14",)}, ("from scipy.integrate import simps",)),
        ({"requires": ("setuptools<82",)}, ("import pkg_resources",)),
        ({"requires": ("cuda-python<13",)}, ("from cuda import cudart",)),
    )
    for code in codes
)
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 12\n"
STATED = {"modes": {SCRIPT: 0o755}}
CUPY13 = {"requires": ("cupy-cuda13x", "pycuda")}
KERNEL = """extern "C" __global__ void f(float *y) {
  if (y[0] > 1'000) { y[0] = '}'; /* } */ }  // {
}
"""
MANGLED = KERNEL.replace('extern "C"', "")
TEXTURED = "texture<float, 1> t;\n" + KERNEL
COMPILED = "import cupy, pycuda.compiler\nS = {!r}\n".format
PRELOAD13 = f"""import ctypes, os
here = os.path.dirname(os.path.dirname(__file__))
ctypes.CDLL(os.path.join(here, "nvidia", "cu13", "lib", "{CUDART13}"), mode=ctypes.RTLD_GLOBAL)
"""
NVRTC = "import ctypes\ndef f():\n    return ctypes.CDLL('libnvrtc.so.13')\n"
LOAD_CU = (
    f"import os\ndef f():\n    {LOAD}    return load('x', [os.path.dirname(__file__) + '/k.cu'])\n"
)
LIBDEVICE = "import triton.language as tl\ndef f(x):\n    return tl.libdevice.rsqrt(x)\n"
OF_PTX13 = requiring(f"{RUNTIME13}<14", metadata="\nNeeds NVIDIA driver 580 or newer.\n")
NEW13 = {EXTENSION: Code(calling("cudaGreenCtxCreate") + MODULE, (CUDART13,), RPATH13)}
UNLINKED = {EXTENSION: Code(calling("cudaMalloc") + MODULE)}
UNFOUND = {EXTENSION: Code(MODULE, (CUDART13,))}
UNSEEN = (
    *(
        Plant(
            f"JIT: {use}", warning(PY, "pkg/__init__.py"), package(COMPILED(source) + use), CUPY13
        )
        for source, use in (
            (KERNEL.replace("// {", "{"), "cupy.RawKernel(S, 'f')\n"),
            (KERNEL + "}", "cupy.RawModule(code=S)\n"),
            (KERNEL, "cupy.RawKernel(S, 'g')\n"),
            (KERNEL, "cupy.RawKernel(S + ' ', name='K')\n"),
            (KERNEL, "m = cupy.RawModule(code=S)\ng = m.get_function('g')\n"),
            (MANGLED, "pycuda.compiler.SourceModule(S).get_function('g')\n"),
            (MANGLED, "cupy.RawKernel(S, 'f')\n"),
            (TEXTURED, "cupy.RawModule(code=S)\n"),
        )
    ),
    Plant(
        "JIT: textures",
        warning(PY, "pkg/k.cu"),
        {**package(LOAD_CU), "pkg/k.cu": TEXTURED, **NEEDS13},
        requiring("torch>=2.9", "ninja", f"{RUNTIME13}<14"),
    ),
    Plant("NVRTC", warning(PY, "pkg/__init__.py"), package(NVRTC), requiring(f"{RUNTIME13}<14")),
    Plant(
        "removed from Triton",
        warning(PY, "pkg/__init__.py"),
        package(LIBDEVICE),
        requiring("triton>=3.3"),
    ),
    Plant(
        "loaded too late",
        error(NEEDED, EXTENSION),
        {**package("from . import _C\n" + PRELOAD13), **UNFOUND},
        requiring(f"{RUNTIME13}<14", tag=CP312),
    ),
    Plant(
        "folder of CUDA 12",
        error(PY, "pkg/__init__.py"),
        package(PRELOAD13.replace("cu13", "cuda_runtime")),
        requiring(f"{RUNTIME13}<14"),
    ),
    Plant(
        "loaded by nothing",
        error(SYMBOL, EXTENSION),
        {**package("from . import _C\n"), **UNLINKED},
        requiring(f"{RUNTIME13}<14", tag=CP312),
    ),
    Plant(
        "function of 13.1",
        warning(NEEDED, EXTENSION),
        {**package("from . import _C\n"), **NEW13},
        requiring(f"{RUNTIME13}>=13.0,<14", tag=CP312),
    ),
    Plant(
        "static program",
        warning(START, TOOL),
        {TOOL: Code("void _start(void) {}\n", (), ("-static", "-nostdlib", "-no-pie"), True)},
        {"modes": {TOOL: 0o644}},
    ),
    Plant(
        "driver for newer PTX",
        warning("driver", META_FILE),
        {**NEEDS13, "pkg/k.ptx": PTX.replace("9.0", "9.9")},
        OF_PTX13,
    ),
    *(
        Plant(text, warning("archs", META_FILE), {"pkg/k.ptx": PTX}, {"metadata": f"\n{text}\n"})
        for text in (
            "Supported GPUs: A100 (sm_80) and H100.",
            "Runs on RTX 3090 and B200.",
            "It supports compute capability 8.6 or 9.0.",
            "Tested on V100 and H100.",
        )
    ),
    *(
        Plant(code, breach(PY, "pkg/__init__.py"), package(f"{code}\n"), w)
        for code, breach, w in AT_IMPORT
    ),
    *(
        Plant(line, breach(PY, "entry_points.txt"), entry(line))
        for line, breach in (
            ("../tool = pkg.cli:main", error),
            ("my tool = pkg.cli:main", warning),
            ("nvcc = pkg.cli:main", warning),
            ("a = pkg.cli:main\na = pkg.cli:main", warning),
        )
    ),
    *(
        Plant(
            f"command with {code}", breach(PY, "pkg/cli.py"), entry("a = pkg.cli:main", code + MAIN)
        )
        for code, breach in (
            ("from .nothing import x\n", error),
            ("print 'x'\n", error),
            ("import click\n", warning),
        )
    ),
    Plant(
        "module that is started",
        warning(PY, "pkg/__main__.py"),
        package("", __main__="from .a import b\n"),
    ),
    *(
        Plant(f"script of {text}", error(START, SCRIPT), {SCRIPT: text, **package("")}, STATED)
        for text in ("#!python\nprint 'x'\n", "#!python\nimport pkg.none\n", "\ufeff#!python\n")
    ),
    *(
        Plant(name, breach(rule, name), {name: text, **package("")}, wheel)
        for name, text, rule, breach, wheel in (
            ("pkg/a:b.txt", "", "archive", warning, ANY),
            ("pkg/con.py", "", "archive", warning, ANY),
            ("pkg/.DS_Store", "", "build path", note, {}),
            ("pkg/a.nsys-rep", "", "build path", note, {}),
            ("pkg/x.pc", "prefix=/home/me/pkg\n", "build path", note, {}),
            ("pkg/_C.pyi", "def f(x: int) -> int\n", PY, warning, {}),
            ("pkg/model.onnx", POINTER, "archive", warning, {}),
            ("pkg/k.cubin", "x", "library", warning, {}),
            ("pkg/k.ptx", "x", "library", warning, {}),
            ("pkg/k.ptx", f"{PTX}wgmma.fence.sync.aligned;\n", "library", error, {}),
            ("sub/_init_.py", "", PY, warning, {}),
            (f"{INFO}/INSTALLER", "pip\n", META, note, {}),
            ("pkg/.aws/credentials", "", "secret", warning, {}),
            ("pkg/.env.local", "", "secret", warning, {}),
            ("pkg/a\u202eb.py", "", "archive", note, {}),
            ("pkg/a.txt", "https://me:s3cr3t-9@a.example/x\n", "secret", warning, {}),
            (f"{DATA}/data/pyvenv.cfg", "", START, error, {}),
            (f"{DATA}/data/lib/python3.12/site-packages/a/b.py", "", START, warning, {}),
        )
    ),
    Plant("set by another user", note("archive", TOOL), {TOOL: PROGRAM}, {"modes": {TOOL: 0o4755}}),
    *(
        Plant(text, breach(META, "METADATA"), NEEDS13, requiring(RUNTIME13, metadata=f"{text}\n"))
        for text, breach in (
            ("Classifier: Environment :: GPU :: NVIDIA CUDA :: 12", note),
            ("Classifier: Operating System :: Microsoft :: Windows", note),
            ("Classifier: Programming Language :: Python :: 3.8", note),
        )
    ),
    Plant(
        "form of a version",
        note("name", "pkg-01.02-py3-none-manylinux_2_39_x86_64.whl"),
        package(""),
        {"version": "01.02"},
    ),
    Plant("utils", warning(TOP, "utils/"), {"utils/__init__.py": ""}),
    Plant("another's package", error(TOP, "flash_attn"), {"flash_attn/__init__.py": ""}),
    Plant(
        "torch's library, copied",
        warning("grafted library", "pkg/libc10.so"),
        {"pkg/libc10.so": Code(), **package("import torch\n")},
        TORCHED,
    ),
    *(
        Plant(f"{line} isn't there", breach(META, "METADATA"), {}, {"requires": (line,)})
        for line, breach in (
            ("nvidia-cublas-cu12>=13", error),
            ("nvidia-cuda-runtime==12.8.*", error),
            ("nvidia-cuda-nvrtc-cu130", error),
            ("cupy-cuda12", error),
            ("python>=3.9", error),
            ("torch==2.9.0.dev20250801", warning),
            ("pkg[none]", warning),
            ("enum34", note),
            ("yaml", warning),
        )
    ),
    Plant(
        "ABI of another Python",
        error("tag", "pkg-1.2.3-cp312-cp311-manylinux_2_39_x86_64.whl"),
        package(""),
        {"tag": CP312.replace("-cp312", "-cp311")},
    ),
    Plant(
        "version of no tag",
        note("name", "pkg-0.0.0-py3-none-manylinux_2_39_x86_64.whl"),
        package(""),
        {"version": "0.0.0"},
    ),
)
ALIKE = (
    *(
        Plant(f"JIT: {use}", None, package(COMPILED(source) + use), CUPY13)
        for source, use in (
            (KERNEL, "cupy.RawKernel(S, 'f')\n"),
            (KERNEL, "m = cupy.RawModule(code=S)\ng = m.get_function('f')\n"),
            (KERNEL, "cupy.RawKernel(S.replace('f', 'g'), 'g')\n"),
            (MANGLED, "cupy.RawModule(code=S, name_expressions=['g']).get_function('g')\n"),
            (MANGLED, "cupy.RawKernel(S, '_Z1fPf')\n"),
            (MANGLED, "pycuda.compiler.SourceModule(S).get_function('f')\n"),
            (
                "#define BEGIN {\n" + KERNEL.replace(") {\n", ") BEGIN\n"),
                "cupy.RawModule(code=S)\n",
            ),
            ("#define K(n) __global__ void n##_k()\n", "cupy.RawKernel(S, 'f_k')\n"),
            ("// texture<float, 1> t;\n", "cupy.RawModule(code=S)\n"),
        )
    ),
    Plant("NVRTC", None, package(NVRTC), requiring(f"{RUNTIME13}<14", "nvidia-cuda-nvrtc<14")),
    Plant("NVRTC of a toolkit", None, package(NVRTC)),
    Plant("Triton's extra", None, package(LIBDEVICE), requiring("triton<3")),
    Plant(
        "loaded in time",
        None,
        {**package(PRELOAD13 + "from . import _C\n"), **UNFOUND},
        requiring(f"{RUNTIME13}<14", tag=CP312),
    ),
    Plant(
        "loaded by code",
        None,
        {**package(PRELOAD13 + "from . import _C\n"), **UNLINKED},
        requiring(f"{RUNTIME13}<14", tag=CP312),
    ),
    Plant(
        "function of 13.1",
        None,
        {**package("from . import _C\n"), **NEW13},
        requiring(f"{RUNTIME13}>=13.1,<14", tag=CP312),
    ),
    Plant("driver for its PTX", None, {**NEEDS13, "pkg/k.ptx": PTX}, OF_PTX13),
    *(
        Plant(text, None, {"pkg/k.ptx": PTX}, {"metadata": f"\n{text}\n"})
        for text in (
            "Supported GPUs: H100 and B200.",
            "It runs on A100 only when built from source.",
            "Tested on V100 with CUDA 12.",
            "Twice as fast as on an A100.",
            "V100 isn't supported; it supports H100.",
        )
    ),
    *(Plant(code, None, package(f"{code}\n"), w) for code, w in NOT_AT_IMPORT),
    *(
        Plant(f"command {name}", None, entry(f"{name} = pkg.cli:main"))
        for name in ("pkg-tool", "pkg.run")
    ),
    Plant(
        "command", None, entry("a = pkg.cli:main", f"from . import b\n{MAIN}") | {"pkg/b.py": ""}
    ),
    Plant("script", None, {SCRIPT: "#!python\nimport os, pkg\n", **package("")}, STATED),
    *(
        Plant(name, None, {name: text, **package("")}, wheel)
        for name, text, wheel in (
            ("pkg/console.py", "", ANY),
            ("pkg/x.pc", "prefix=${pcfiledir}/../..\n", {}),
            ("pkg/_C.pyi", "def f[T](x: T, /) -> T: ...\n", {}),
            ("pkg/k.ptx", PTX, {}),
            ("pkg/k.ptx", f"{PTX.replace('_90', '_90a')}wgmma.fence.sync.aligned;\n", {}),
            ("pkg/k.ptx", f"{PTX}// wgmma.fence\n", {}),
            (
                "pkg/a.txt",
                "https://user:password@a.example/x https://{user}:{token}@a.example\n",
                {},
            ),
        )
    ),
    *(
        Plant(f"{line} is there", None, {}, {"requires": (line,)})
        for line in (
            "nvidia-cublas-cu12>=12.4",
            "cupy-cuda12x",
            "torch>=2.9.0.dev0",
            "cuda-toolkit==13.*",
        )
    ),
    Plant(
        "classifier of its CUDA",
        None,
        NEEDS13,
        requiring(RUNTIME13, metadata="Classifier: Environment :: GPU :: NVIDIA CUDA :: 13\n"),
    ),
    Plant("library with torch's beginning", None, {"pkg/libtorchaudio.so": Code()}, TORCHED),
    Plant("own extra", None, {}, {"requires": ('a; extra == "x"', 'pkg[x]; extra == "all"')}),
    Plant("own utils", None, {"utils/__init__.py": ""}, {"name": "utils"}),
)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str | Code], bytes]:
    """Return text as bytes, and code compiled; the same code once."""

    @functools.cache
    def compiled(code: str | Code) -> bytes:
        if isinstance(code, str) and not code.startswith("versions: "):
            return code.encode()
        folder = tmp_path_factory.mktemp("code")
        if isinstance(code, str):
            return versioned(folder, code).read_bytes()
        if code.is_program:
            return program(folder, code).read_bytes()
        library = make_library(folder, *code.needs, flags=code.flags, code=code.text).read_bytes()
        content = bytearray(library)
        for place, value in code.header:
            content[place] = value
        return bytes(content)

    return compiled


def program(folder: Path, code: Code) -> Path:
    stubs = [make_library(folder / name, flags=(f"-Wl,-soname,{name}",)) for name in code.needs]
    source = folder / "main.c"
    source.write_text(code.text)
    flags = ("-Wl,--no-as-needed", "-fPIE", "-pie")
    return compile_file(folder / "tool", "gcc", source, *flags, *stubs, *code.flags)


def versioned(folder: Path, code: str) -> Path:
    """Link a library with a symbol of a version, or one that needs it, perhaps by its path."""
    version = code.rpartition(" ")[2]
    soname = "libcudart.so.13" if "cudart" in version else "libv.so.1"
    soname = "v/libv.so" if version == "path" else soname
    name = next((word for word in code.split() if word.startswith("cuda")), "answer")
    (folder / "map").write_text(
        f"{version if version[0] == 'l' else 'V_' + version} {{ global: {name}; }};\n"
    )
    flags = (f"-Wl,--version-script={folder / 'map'}", f"-Wl,-soname,{soname}")
    supplier = make_library(folder / "v", flags=flags, code=f"int {name}(void) {{ return 0; }}\n")
    if "has" in code:
        return supplier
    (folder / "user.c").write_text(calling(name) + MODULE)
    place = ":$ORIGIN/../nvidia/cu13/lib" if name != "answer" else ""
    words = ("gcc", "-fPIC", folder / "user.c", supplier, f"-Wl,-rpath,$ORIGIN{place}")
    return compile_library(folder / "libx.so", *words)


def found(
    plant: Plant, folder: Path, build: Callable[[str | Code], bytes]
) -> list[tuple[str, str, str]]:
    files: dict[str, Path | bytes] = {name: build(code) for name, code in plant.files.items()}
    return breaches(audited(folder, files, **plant.wheel))


@pytest.mark.parametrize(
    "plant", [*DEFECTS, *CONTRADICTIONS, *BROKEN, *UNSEEN], ids=lambda plant: plant.name
)
def test_finds_planted_defect(
    plant: Plant, tmp_path: Path, build: Callable[[str | Code], bytes]
) -> None:
    assert plant.breach in found(plant, tmp_path, build)


@pytest.mark.parametrize(
    "plant", [*SOUND, *CONSISTENT, *FIXED, *ALIKE], ids=lambda plant: plant.name
)
def test_sound_wheel_passes(
    plant: Plant, tmp_path: Path, build: Callable[[str | Code], bytes]
) -> None:
    assert [item for item in found(plant, tmp_path, build) if item[0] != "note"] == []


@pytest.mark.parametrize(
    ("rule", "files"),
    [
        ("secret", {"pkg/.env": f"TOKEN = '{TOKEN}'\nKEY = '{NGC_KEY}'\n"}),
        (NEEDED, {f"pkg/{folder}/libx.so": Code(needs=("libavutil.so.57",)) for folder in "ab"}),
        (
            NEEDED,
            {
                f"pkg/lib{name}.so": Code(needs=(soname,))
                for name, soname in (("x", CUDART), ("y", CUBLAS))
            },
        ),
        (TOP, {"tests/__init__.py": "", "utils/__init__.py": ""}),
        (
            "grafted library",
            {f"pkg.libs/{n}-0a1b2c3d.so.1": Code() for n in ("libcuda", "libnvcuvid")},
        ),
        (PY, package("import pkg.a\n", a="from . import b\nfrom . import c\n")),
        (PY, package("raise ImportError\nfrom . import a\n", a="import pkg.b\n")),
    ],
)
def test_one_cause_is_one_finding(
    rule: str, files: dict[str, str | Code], tmp_path: Path, build: Callable[[str | Code], bytes]
) -> None:
    plant = Plant("", ("", "", ""), files, {"tag": CP312})

    assert len([item for item in found(plant, tmp_path, build) if item[1] == rule]) == 1
