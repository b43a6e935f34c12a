"""Failures of pip and uv before anything is compiled."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from typing import TYPE_CHECKING

from tests.logs.box import HOME
from tests.logs.cases import case
from tests.logs.projects import modules, pyproject

if TYPE_CHECKING:
    from tests.logs.box import Box

_WHEEL = "Wheel-Version: 1.0\nGenerator: bdist_wheel (0.45.1)\nRoot-Is-Purelib: false\nTag: {}\n"


def _wheel(
    box: Box,
    file: str,
    *,
    needs: tuple[str, ...] = (),
    version: str = "",
    python: str = ">=3.9",
) -> str:
    """A wheel in the home folder's `wheels`; its own version may differ from the file's name."""
    name, named_version, *tag = file.removesuffix(".whl").split("-")
    version = version or named_version
    info = f"{name}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += f"Requires-Python: {python}\n{requires}"
    files = {
        f"{name}/__init__.py": f'__version__ = "{version}"\n',
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": _WHEEL.format("-".join(tag)),
    }
    (box.home / "wheels").mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(box.home / "wheels" / file, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", _record(files, info))
    return f"wheels/{file}"


def _record(files: dict[str, str], info: str) -> str:
    lines = [f"{path},sha256={_digest(text)},{len(text)}" for path, text in files.items()]
    return "\n".join([*lines, f"{info}/RECORD,,", ""])


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@case("hash-mismatch", "pip", r"THESE PACKAGES DO NOT MATCH THE HASHES")
def hash_pip(box: Box) -> None:
    """A requirements file with hashes of another build of the wheel."""
    box.add_python("3.11")
    wrong = hashlib.sha256(b"another build").hexdigest()
    wheels = [box.parts.wheel(f"{name}-*") for name in ("filelock", "fsspec", "networkx")]
    lines = [
        f"{'=='.join(wheel.name.split('-')[:2])} --hash=sha256:"
        + hashlib.sha256(wheel.read_bytes()).hexdigest()
        for wheel in wheels
    ]
    lines.insert(2, f"ninja==1.13.2 --hash=sha256:{wrong}")
    box.write({"requirements.txt": "\n".join(lines) + "\n"})
    box.record("pip install -v --require-hashes -r requirements.txt")


@case("hash-mismatch", "uv", r"Hash mismatch for")
def hash_uv(box: Box) -> None:
    """The same through uv."""
    box.add_python("3.11", "uv")
    wrong = hashlib.sha256(b"another build").hexdigest()
    line = f"numpy==2.2.6 --hash=sha256:{wrong}\nninja==1.13.2 --hash=sha256:{wrong}\n"
    box.write({"requirements.txt": line})
    box.record("uv pip install --require-hashes -r requirements.txt")


@case("pip-index-lacks-version", "pip", r"Could not find a version that satisfies the requirement")
def version_missing(box: Box) -> None:
    """The index has torch, and not the version that is pinned."""
    box.add_python("3.11")
    box.write({"requirements.txt": "filelock\nnetworkx\nnumpy>=1.26\ntorch==1.13.1\nsympy\n"})
    box.record("pip install -r requirements.txt")


@case("pip-index-lacks-version", "uv", r"there is no version of torch==1\.13\.1\+cu117")
def version_missing_uv(box: Box) -> None:
    """The same through uv, with a local version."""
    box.add_python("3.11", "uv")
    box.record("uv pip install numpy torch==1.13.1+cu117")


@case("pip-index-lacks-version", "pip-build-requires", r"No matching distribution found for nvidia")
def build_requirement_missing(box: Box) -> None:
    """A build requirement is not on the index: the failure is inside of pip's own pip."""
    box.add_python("3.12")
    text = pyproject("setuptools>=69", "nvidia-cuda-nvcc-cu12==12.8.93", "ninja")
    box.write({"fastops/pyproject.toml": text, **modules()})
    box.record("pip install -v ./fastops")


@case("pip-resolution-conflict", "pip", r"ERROR: Cannot install|ERROR: ResolutionImpossible")
def conflict_pip(box: Box) -> None:
    """Two packages pin NumPy apart."""
    box.add_python("3.11")
    first = _wheel(box, "flashops-1.4.0-py3-none-any.whl", needs=("numpy<2", "filelock"))
    second = _wheel(box, "fastops-0.4.1-py3-none-any.whl", needs=("numpy>=2.1", "networkx"))
    box.record(f"pip install {first} {second}")


@case("pip-resolution-conflict", "uv", r"No solution found when resolving dependencies")
def conflict_uv(box: Box) -> None:
    """The same through uv."""
    box.add_python("3.11", "uv")
    first = _wheel(box, "flashops-1.4.0-py3-none-any.whl", needs=("numpy<2", "filelock"))
    second = _wheel(box, "fastops-0.4.1-py3-none-any.whl", needs=("numpy>=2.1", "networkx"))
    box.record(f"set -x; uv venv --clear venv2; uv pip install ./{first} ./{second}")


@case("wheel-tag-unsupported", "pip", r"is not a supported wheel on this platform")
def tag_pip(box: Box) -> None:
    """A wheel for Python 3.12 on Python 3.11."""
    box.add_python("3.11")
    file = _wheel(box, "flashops-2.8.3-cp312-cp312-linux_x86_64.whl")
    box.record(f"set -x; python -V; pip install numpy==2.2.6; pip install -v {file}")


@case(
    "wheel-tag-unsupported",
    "uv",
    r"doesn't have a wheel|is incompatible|no wheels? with a matching",
)
def tag_uv(box: Box) -> None:
    """A wheel for aarch64, through uv."""
    box.add_python("3.11", "uv")
    file = _wheel(box, "flashops-2.8.3-cp311-cp311-manylinux_2_34_aarch64.whl")
    box.record(f"uv pip install filelock; uv pip install ./{file}")


@case("wheel-version-mismatch", "pip", r"inconsistent version: (expected|filename)")
def renamed_pip(box: Box) -> None:
    """Somebody put the CUDA version into the file's name only."""
    box.add_python("3.11")
    _wheel(box, "flashops-2.8.3+cu130torch2.9-py3-none-any.whl", version="2.8.3")
    box.record("pip install -v --find-links wheels flashops")


@case("wheel-version-mismatch", "uv", r"Wheel version does not match filename")
def renamed_uv(box: Box) -> None:
    """A version is in the file's name and another one in its metadata, through uv."""
    box.add_python("3.11", "uv")
    file = _wheel(box, "flashops-2.8.4-py3-none-any.whl", version="2.8.3")
    box.record(f"uv pip install ./{file}")


@case("python-version-unsupported", "pip", r"requires a different Python: 3\.12")
def python_pip(box: Box) -> None:
    """The package stops before Python 3.12."""
    box.add_python("3.12")
    text = pyproject("setuptools==80.9.0", extra='requires-python = ">=3.8,<3.12"\n')
    box.write({"fastops/pyproject.toml": text, **modules()})
    box.record("pip install -v ./fastops")


@case("python-version-unsupported", "uv", r"the current Python version \(\S+\) does not satisfy")
def python_uv(box: Box) -> None:
    """The package needs a newer Python; uv says so."""
    box.add_python("3.12", "uv")
    file = _wheel(box, "flashops-2.8.3-py3-none-any.whl", python=">=3.13")
    box.record(f"uv pip install filelock networkx; uv pip install ./{file}")


@case(
    "network-download-failed",
    "pip-dns",
    r"Failed to establish a new connection|NameResolutionError",
)
def no_network(box: Box) -> None:
    """A runner without network: pip tries again and again."""
    box.add_python("3.11")
    box.env["PIP_INDEX_URL"] = "https://wheels.example.org/simple"
    box.env["PIP_RETRIES"] = "2"
    box.write({"fastops/pyproject.toml": pyproject("setuptools", "ninja"), **modules()})
    box.record("pip install -v ./fastops", stamped=True)


@case("network-download-failed", "pip-proxy", r"Cannot connect to proxy|ProxyError")
def no_proxy(box: Box) -> None:
    """The proxy of the settings does not answer."""
    box.add_python("3.11")
    box.env["PIP_INDEX_URL"] = "https://wheels.example.org/simple"
    box.env |= {"https_proxy": "http://127.0.0.1:3128", "PIP_RETRIES": "1"}
    box.record("pip install torch --index-url https://wheels.example.org/whl/cu130")


@case("network-download-failed", "setup-py", r"urllib\.error\.URLError")
def no_wheel_download(box: Box) -> None:
    """A setup.py downloads a header archive while it builds."""
    box.add_python("3.12", "setuptools", "wheel")
    text = """\
        import urllib.request
        from setuptools import find_packages, setup
        url = "https://github.com/NVIDIA/cutlass/archive/refs/tags/v3.9.2.tar.gz"
        print("Guessing wheel URL: ", url)
        urllib.request.urlretrieve(url, "cutlass.tar.gz")
        setup(name="fastops", version="0.4.1", packages=find_packages())
        """
    box.write({"fastops/setup.py": text, **modules()})
    box.record("pip install -v --no-build-isolation ./fastops")


@case("network-download-failed", "uv", r"error sending request|dns error|Failed to fetch")
def no_network_uv(box: Box) -> None:
    """uv without network."""
    box.add_python("3.11", "uv")
    box.env |= {"UV_DEFAULT_INDEX": "https://wheels.example.org/simple", "UV_HTTP_RETRIES": "1"}
    box.record("uv pip install -v torch==2.9.0 2>&1")


@case("permission-denied", "pip-system", r"\[Errno 13\] Permission denied|Read-only file system")
def not_writable(box: Box) -> None:
    """pip installs into a folder below one that cannot be written."""
    box.add_python("3.11")
    site = box.home / "venv/lib/python3.11/site-packages"
    box.prepare("pip install -q wheel")
    site.chmod(0o555)
    box.record(f"pip install -v ninja networkx --target {HOME}/venv/lib/python3.11/site-packages/x")


@case("disk-full", "pip-install", r"\[Errno 28\] No space left on device")
def no_room(box: Box) -> None:
    """The volume of the environment is full while pip unpacks torch."""
    box.add_python("3.11")
    box.mounts += ["--size", "40000000", "--tmpfs", f"{HOME}/small"]
    box.record("pip install --target small filelock networkx cmake==3.31.10 ninja fsspec")


@case("path-too-long", "pip", r"\[Errno 36\] File name too long")
def name_too_long(box: Box) -> None:
    """A build writes one file a kernel and names it after all template arguments."""
    box.add_python("3.12", "setuptools", "wheel")
    text = """\
        from pathlib import Path
        from setuptools import find_packages, setup
        Path("csrc/generated").mkdir(parents=True, exist_ok=True)
        for dtype in ("fp16", "bf16", "e4m3"):
            for tiles in range(1, 40, 6):
                tile = "_".join(f"tile{n}x{n * 16}" for n in range(tiles))
                name = f"flash_fwd_hdim128_{dtype}_{tile}_sm90.cu"
                print("generating", name)
                Path("csrc/generated", name).write_text("// generated")
        setup(name="fastops", version="0.4.1", packages=find_packages())
        """
    box.write({"fastops/setup.py": text, **modules()})
    box.record("pip install -v --no-build-isolation ./fastops")
