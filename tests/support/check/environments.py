"""Environments with tiny packages, and a driver that says what a test wants: for `diagnose`.

The driver is a fault injector: two libraries compiled from C, which answer as NVML and libcuda do.
"""

from __future__ import annotations

import os
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuwheel.base.formats.wheel.archive import unpack_wheel
from cuwheel.base.system import process
from cuwheel.build.recipe.recipe import Recipe
from cuwheel.check.diagnose.diagnose import DiagnoseOptions, diagnose
from cuwheel.check.diagnose.document import DiagnoseDocument
from cuwheel.check.diagnose.verdict import Diagnosis
from tests.support.factories import compile_library, write_wheel

# With uv, which is in the environment that the tests run in, not behind its links.
CALLERS_PATH = f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"  # noqa: PTH120
CALL_OF_TORCH = "namespace c10 { void %s; } void use() { c10::%s; }"  # what an extension does
_VERSION = "2.11.0+cu130"  # of torch
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"

_NVML = r"""
#include <stdlib.h>
#include <string.h>
static int number(const char *name, int otherwise) {
    return getenv(name) ? atoi(getenv(name)) : otherwise;
}
int nvmlInit_v2(void) { return number("STUB_NVML", 0); }
const char *nvmlErrorString(int code) { return "the stub's error"; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) {
    strncpy(to, getenv("STUB_DRIVER") ? getenv("STUB_DRIVER") : "580.65.06", size);
    return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int *to) { *to = number("STUB_CUDA", 13000); return 0; }
int nvmlDeviceGetCount_v2(unsigned *to) { *to = number("STUB_GPUS", 1); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **to) {
    *to = (void *)(long)(index + 1);
    return number("STUB_LOST", -1) == (int)index ? 15 : 0;
}
int nvmlDeviceGetName(void *gpu, char *to, unsigned size) { strncpy(to, "Stub", size); return 0; }
int nvmlDeviceGetUUID(void *gpu, char *to, unsigned size) { strncpy(to, "GPU-1", size); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *gpu, int *major, int *minor) {
    int both = number("STUB_CAPABILITY", 90);
    *major = both / 10; *minor = both % 10;
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *gpu, unsigned long long *to) {
    to[0] = to[1] = 1ull << 34; to[2] = 0;
    return 0;
}
int nvmlDeviceGetMigMode(void *gpu, unsigned *now, unsigned *next) {
    *now = *next = number("STUB_MIG", 0);
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void *gpu, unsigned *to) { *to = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *gpu, unsigned index, void **to) {
    *to = gpu;
    return index < 2 ? 0 : 6;
}
"""
_CUDA = r"""
#include <stdlib.h>
#include <unistd.h>
static int number(const char *name, int otherwise) {
    return getenv(name) ? atoi(getenv(name)) : otherwise;
}
int cuDriverGetVersion(int *to) { *to = number("STUB_CUDA", 13000); return 0; }
int cuInit(unsigned flags) {
    if (getenv("STUB_HANG")) sleep(1000);
    if (getenv("STUB_CRASH")) abort();
    return number("STUB_INIT", 0);
}
int cuDeviceGetCount(int *to) { *to = number("STUB_VISIBLE", number("STUB_GPUS", 1)); return 0; }
int cuDeviceGet(int *to, int ordinal) { *to = ordinal; return 0; }
int cuDeviceGetUuid(unsigned char *to, int device) {
    for (int byte = 0; byte < 16; byte++) to[byte] = device;
    return 0;
}
"""
# What the probes ask of torch, and nothing else.
_TORCH = """
import sys
__version__ = "{version}"
class version: cuda = {cuda!r}; hip = None
class _C:
    _GLIBCXX_USE_CXX11_ABI = True
    _cuda_getArchFlags = staticmethod(lambda: "{archs}")
class cuda:
    is_available = staticmethod(lambda: {available})
    device_count = staticmethod(lambda: 1)
    get_device_name = staticmethod(lambda index: "Stub")
    get_device_capability = staticmethod(lambda index: (9, 0))
    @staticmethod
    def init(): raise RuntimeError("the stub sees no GPU")
class backends:
    class cudnn: version = staticmethod(lambda: 91900)
{more}
"""


@dataclass(frozen=True, kw_only=True)
class Env:
    """A virtual environment that a test fills."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def site(self) -> Path:
        (site,) = (self.folder / "venv" / "lib").glob(
            f"python*.{sys.version_info[1]}/site-packages"
        )
        return site

    def install(
        self, name: str, files: Mapping[str, bytes | Path] | None = None, **wheel: object
    ) -> None:
        """Install a tiny wheel."""
        named = {"tag": "py3-none-any", **wheel}
        path = write_wheel(self.folder / "wheels", files or {}, name=name, **named)  # type: ignore[arg-type]
        unpack_wheel(path, self.site)

    def offer(
        self, name: str, files: Mapping[str, bytes | Path] | None = None, **wheel: object
    ) -> None:
        """Put a wheel into the index that `shell` installs from."""
        named = {"tag": "py3-none-any", **wheel}
        write_wheel(self.folder / "index", files or {}, name=name, **named)  # type: ignore[arg-type]

    def shell(self, command: str) -> None:
        """Run a command as a person would, with the wheels of `offer` for an index."""
        environ = {
            "PATH": CALLERS_PATH,
            "HOME": str(self.folder),
            "UV_CACHE_DIR": str(self.folder / "uv"),
            "UV_CONFIG_FILE": str(self.folder / "uv.toml"),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.folder / "index"),
        }
        settings = f'no-index = true\nfind-links = ["{self.folder / "index"}"]\n'
        (self.folder / "uv.toml").write_text(settings)
        process.run(["sh", "-ec", command], env=environ)

    def uv(self, *words: str) -> None:
        """Install with uv."""
        self.shell(f"uv pip install -q --python {self.python} {' '.join(words)}")

    def install_torch(self, **facts: Any) -> None:
        """Install the torch of `torch_files`."""
        version, requires = facts.get("version", _VERSION), facts.pop("requires", ())
        files = self.torch_files(**facts)
        self.install("torch", files, version=version.partition("+")[0], requires=requires)

    def torch_files(  # noqa: PLR0913 - the facts of a torch, each with a default
        self,
        *,
        version: str = _VERSION,
        cuda: str | None = "13.0",
        archs: str = "sm_90",
        available: bool = True,
        code: str = "",
        more: str = "",
    ) -> dict[str, bytes | Path]:
        """A torch of one small library; `code` is C++, `more` Python."""
        source = _TORCH.format(
            version=version, cuda=cuda, archs=archs, available=available, more=more
        )
        static = f"__version__ = {version!r}\ncuda = {cuda!r}\nhip = None\n"
        library = self.compile("libc10.so", code or "namespace c10 { void sound() {} }")
        return {
            "torch/__init__.py": source.encode(),
            "torch/version.py": static.encode(),
            "torch/lib/libc10.so": library,
        }

    def compile(self, name: str, code: str, *flags: str | Path) -> Path:
        """A library of C++."""
        source = self.folder / f"{name}.cpp"
        source.write_text(code)
        return compile_library(
            self.folder / "made" / name, "g++", "-fPIC", source, f"-Wl,-soname,{name}", *flags
        )

    def extension(self, code: str, *needs: str) -> Path:
        """A library that needs sonames which may not be there."""
        stubs = [self.compile(name, "") for name in needs]
        flags = ("-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined")
        return self.compile("libext.so", code, *flags, *stubs)


def make_env(folder: Path) -> Env:
    """An environment without any package."""
    venv.EnvBuilder(symlinks=True).create(folder / "venv")
    return Env(folder=folder)


def make_driver(folder: Path) -> Path:
    """The folder with the stand-ins for NVML and libcuda, for `LD_LIBRARY_PATH`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, code in (("libnvidia-ml.so.1", _NVML), ("libcuda.so.1", _CUDA)):
        source = folder / f"{name}.c"
        source.write_text(code)
        compile_library(folder / name, "gcc", "-fPIC", source, f"-Wl,-soname,{name}")
    return folder


def look_into(
    env: Env, *packages: str, recipes: tuple[Recipe, ...] = (), **variables: str
) -> DiagnoseDocument:
    """Diagnose an environment, with what these recipes know."""
    asked = DiagnoseOptions(
        packages=packages, python=str(env.python), start=env.folder, project=env.folder
    )
    environ = {"PATH": CALLERS_PATH, "HOME": str(env.folder), **variables}
    return diagnose(asked, environ, recipes)


def look_closely(env: Env) -> DiagnoseDocument:
    """Diagnose an environment with all its files."""
    asked = DiagnoseOptions(
        python=str(env.python), verifies_files=True, start=env.folder, project=env.folder
    )
    return diagnose(asked, {"PATH": CALLERS_PATH, "HOME": str(env.folder)}, ())


def verdict_on(report: DiagnoseDocument, anchor: str) -> Diagnosis:
    """The one verdict with an anchor."""
    found = [one for one in report.verdicts if one.anchor == anchor]
    assert len(found) == 1, [f"{one.anchor}: {one.what}" for one in report.verdicts]
    return found[0]


def anchors(report: DiagnoseDocument) -> set[str]:
    """The anchors of all that isn't well."""
    return {one.anchor for one in report.verdicts if one.anchor}
