"""Real files, from which the changes begin: small, and of every kind that is read."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from cuwheel.base.paths import ROOT
from tests.fuzz.readers import TEXTS, WHEEL, write_wheel_with
from tests.support.factories import compile_cuda, compile_device_file, compile_library, write_wheel
from tests.support.toolchains.debian_archive import Member, Toy, deb_of, hard_link, link

_KERNEL = "__global__ void twice(float *p) { p[threadIdx.x] *= 2; }\n"
_HOST = (
    "#include <math.h>\nint PyInit_ext(void) { return 0; }\ndouble f(double x) { return sin(x); }\n"
)
_LOCK = """\
# Written by `nox -s lock`; don't edit.
# input    sha256:{digest}
# content  sha256:{digest}
# pythons  3.11 3.12
# uploaded before 2026-01-01T00:00:00Z
toy==1.0 ; python_full_version < '3.12' \\
    --hash=sha256:{digest}
nvidia-cuda-runtime==13.0.96 \\
    --hash=sha256:{digest} \\
    --hash=sha256:{digest}
"""
_LOG = """\
\x1b[31m[1/3] nvcc -c a.cu\x1b[0m
/usr/include/c++/15/cmath(47): error: identifier "__x" is undefined
nvcc fatal   : Unsupported gpu architecture 'compute_120'
ImportError: libcudart.so.13: cannot open shared object file: No such file or directory
2026-01-01T00:00:00Z g++: fatal error: Killed signal terminated program cc1plus
ninja: build stopped: subcommand failed.
"""
_RELEASES = [
    {
        "assets": [
            {
                "name": "toy-1.0+cu130-py3-none-any.whl",
                "size": 7,
                "digest": f"sha256:{'0' * 64}",
                "browser_download_url": "https://example.org/toy-1.0%2Bcu130-py3-none-any.whl",
            }
        ]
    }
]
_MEMBERS = (
    Member(name="./usr/lib/libtoy.so.1", content=b"toy\n"),
    link("./usr/lib/libtoy.so", "/usr/lib/libtoy.so.1"),
    hard_link("./usr/lib/libtoy.so.1.0", "./usr/lib/libtoy.so.1"),
)
_REQUIRES = b"""\
Requires-Python: >=3.10
Provides-Extra: a
Requires-Dist: torch>=2 ; extra == 'a' and python_version < '3.13'
Requires-Dist: nvidia-cublas-cu12==12.8.4.1 ; platform_system == "Linux"
Requires-Dist: cuda-toolkit[cublas]==13.0.2
"""
_PATCH = """\
Why: a test.

diff --git a/setup.py b/setup.py
--- a/setup.py
+++ b/setup.py
@@ -1,3 +1,3 @@
 one
-two
+2
 three
"""
_FAILURE = {
    "date": "2026-01-01T00:00:00+00:00",
    "exit_code": 61,
    "what": "it failed",
    "why": "so",
    "fix": "do",
    "anchor": "build-failed",
    "cause": "killed",
    "log": "toy.failed.log",
}
_STATEMENT = {
    "_type": "https://in-toto.io/Statement/v1",
    "subject": [{"name": WHEEL, "digest": {"sha256": "0" * 64}}],
    "predicate": {
        "buildDefinition": {
            "externalParameters": {"recipe": "toy", "toolkit": "13.0", "archs": ["90"]},
            "resolvedDependencies": [{"name": "source", "digest": {"sha256": "0" * 64}}],
        }
    },
}
_MIRROR = {"targets": {"toy-130": {"pythons": ["3.11"], "command": "nox -s build-toy-130"}}}
_EVENT = {"kind": "tool", "tool": "ptxas", "start": 1.5, "end": 2.5, "memory": 1000, "status": 0}
_INDEX = '<!DOCTYPE html><a href="toy-1.0.tar.gz#sha256={digest}" data-yanked="">toy-1.0.tar.gz</a>'


def write_samples(folder: Path, cuda_home: Path) -> None:
    """A folder of files for each reader."""
    made = {**_binaries(folder / "made", cuda_home), **_texts(folder / "made")}
    for reader, contents in made.items():
        (folder / reader).mkdir()
        for number, content in enumerate(contents):
            (folder / reader / str(number)).write_bytes(content)


def _binaries(folder: Path, cuda_home: Path) -> dict[str, list[bytes]]:
    folder.mkdir(parents=True)
    source, host = folder / "twice.cu", folder / "host.c"
    source.write_text(_KERNEL)
    host.write_text(_HOST)
    device = [
        compile_device_file(folder / f"twice.{kind}", cuda_home, source, "90").read_bytes()
        for kind in ("cubin", "fatbin", "ptx")
    ]
    flags = ("-gencode=arch=compute_90,code=[sm_90,compute_90]", "-rdc=true", "--cudart=none")
    cuda = compile_cuda(folder / "cuda.so", cuda_home, source, *flags).read_bytes()
    plain = compile_library(folder / "host.so", "gcc", "-fPIC", host, "-lm").read_bytes()
    small = write_wheel(folder / "wheel", {"pkg/ext.so": plain, "pkg/__init__.py": b"x = 1\n"})
    stored = write_wheel_with(folder / WHEEL, {"pkg/twice.cubin": device[0]})
    return {
        "wheel": [small.read_bytes(), stored.read_bytes()],
        "member": [plain, cuda, *device],
        "elf": [plain, cuda, device[0]],
        "compare": [plain, cuda, *device],
        "cubin": device[:1],
        "fatbin": [device[1], cuda],
        "ptx": device[2:],
    }


def _texts(folder: Path) -> dict[str, list[bytes]]:
    digest = "0" * 64
    (folder / "pkg").mkdir()
    (folder / "pkg" / "setup.py").write_text("setup()\n")
    with tarfile.open(folder / "source.tar", "w") as archive:
        archive.add(folder / "pkg", "toy-1.0")
    record = f"pkg/a.py,sha256={digest},0\n{digest},sha512={digest},1\n"
    conda = (ROOT / "envs" / "cuda122" / "conda-lock.yml").read_bytes().split(b"\n- name:")
    debian = (ROOT / "envs" / "gcc12" / "debian.lock").read_bytes().split(b"\n  - ")
    return {
        "metadata": [
            TEXTS["METADATA"].partition(b"\n\n")[0] + b"\nRequires-Dist: torch>=2 ; extra == 'a'\n"
        ],
        "tags": [TEXTS["WHEEL"]],
        "record": [record.encode()],
        "lock": [_LOCK.format(digest=digest).encode()],
        "conda-lock": [b"\n- name:".join(conda[:3])],
        "debian-lock": [b"\n  - ".join(debian[:3])],
        "debian-package": [deb_of(Toy(members=_MEMBERS), compression=kind) for kind in ("", ".xz")],
        "redist-lock": [(ROOT / "envs" / "cuda122" / "redist.lock").read_bytes()[:2000]],
        "log": [_LOG.encode(), _LOG.encode("utf-16")],
        "failure": [json.dumps(_FAILURE).encode()],
        "statement": [json.dumps(_STATEMENT).encode()],
        "mirror": [json.dumps(_MIRROR).encode()],
        "events": [f"{json.dumps(_EVENT)}\n".encode()],
        "index": [_INDEX.format(digest=digest).encode()],
        "release": [json.dumps(_RELEASES).encode()],
        "offer": [TEXTS["METADATA"].partition(b"\n\n")[0] + b"\n" + _REQUIRES],
        "patch": [_PATCH.encode()],
        "archive": [(folder / "source.tar").read_bytes()],
    }
