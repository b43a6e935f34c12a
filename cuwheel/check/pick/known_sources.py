"""Public places with CUDA wheels, which are queried after the caller's own indexes.

Each address is what the publisher's documentation tells people to use; `checked` is the date of a
reading of the place itself, empty where there was none. A place is queried only for the projects
that it holds, so that no other name leaves the machine.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cuwheel.base.errors import UsageError, suggest
from cuwheel.base.fetch.indexes.cuda_lines import LINES_VARIABLE, cuda_of_line
from cuwheel.base.fetch.indexes.offers import Form as AddressForm
from cuwheel.base.system.regular_files import read_json

VARIABLE = "CUWHEEL_SOURCES"  # names, separated by blanks, or `none`
BASES_VARIABLE = "CUWHEEL_SOURCE_BASES"  # copies: `pytorch=https://HOST/whl`, separated by blanks
NONE = "none"
CHECKED = Path(__file__).with_name("checked_sources.json")  # by `nox -s bench -- known-sources`

Form = Literal[
    "simple index",
    "simple index of each CUDA line",
    "releases of a forge",
    "page of links",
    "page of links of each PyTorch and CUDA",
]


@dataclass(frozen=True, kw_only=True)
class KnownSource:
    """A public place with CUDA wheels.

    Attributes:
        name: for `--sources`.
        publisher: who runs it.
        base: the start of its addresses, which a variable can replace.
        pages: of wheels, after `base`, with `{line}` (`cu130`) and `{torch}` (`2.8`).
        projects: that it holds, with normalised names.
        states: how its wheels state CUDA and PyTorch.
        hashes: whether its pages state SHA-256 hashes, as far as is documented.
        terms: licence of use.
        documentation: the address of what is said here.
    """

    name: str
    publisher: str
    base: str
    pages: tuple[str, ...]
    form: Form
    projects: tuple[str, ...]
    states: str
    hashes: str
    terms: str
    documentation: str
    lines: tuple[str, ...] = ()
    torches: tuple[str, ...] = ()

    @property
    def checked(self) -> str:
        """The date on which the place itself had a wheel of each project; empty: never read."""
        dates: dict[str, str] = read_json(CHECKED) or {}
        return dates.get(self.name, "")

    @property
    def reads(self) -> AddressForm:
        """The form of its addresses: nothing else is tried there."""
        return "index" if self.form.startswith("simple index") else "page"

    def addresses(self, bases: Mapping[str, str]) -> Iterator[SourcePage]:
        """Yield the addresses of its indexes, lists or pages."""
        base = bases.get(self.name, self.base).rstrip("/")
        for page in self.pages:
            lines = self.lines if "{line}" in page else ("",)
            torches = self.torches if "{torch}" in page else ("",)
            for line, torch in itertools.product(lines, torches):
                declares = {"cuda": cuda_of_line(line), "torch": torch}
                yield SourcePage(
                    address=f"{base}/{page.format(line=line, torch=torch)}",
                    source=self,
                    declares=tuple((fact, value) for fact, value in declares.items() if value),
                )


@dataclass(frozen=True, kw_only=True)
class SourcePage:
    """An address of a known source.

    Attributes:
        declares: what the address itself states of its wheels: `cuda`, `torch`.
    """

    address: str
    source: KnownSource
    declares: tuple[tuple[str, str], ...] = ()


_LINES = ("cu126", "cu128", "cu129", "cu130", "cu132")
_OF_PROJECT = "the licence of each project"
_TORCHES = ("2.5", "2.6", "2.7", "2.8", "2.9", "2.10", "2.11", "2.12")
_GITHUB = "https://api.github.com/repos"  # 60 requests an hour without an account


def _releases(
    name: str, repository: str, *projects: str, publisher: str = "the project itself"
) -> KnownSource:
    return KnownSource(
        name=name,
        publisher=publisher,
        base=f"{_GITHUB}/{repository}",
        pages=("releases",),
        form="releases of a forge",
        projects=projects,
        states="local version: cu12torch2.8cxx11abiTRUE, cu128torch2.8",
        hashes="in the forge's list, for files since June 2025",
        terms=_OF_PROJECT,
        documentation=f"https://github.com/{repository}",
    )


KNOWN_SOURCES = (
    KnownSource(
        name="pytorch",
        publisher="PyTorch Foundation",
        base="https://download.pytorch.org/whl",
        pages=("{line}/",),
        form="simple index of each CUDA line",
        projects=(
            *("fbgemm-gpu", "torch", "torch-tensorrt", "torchao", "torchaudio", "torchcodec"),
            *("torchvision", "vllm", "xformers"),
        ),
        lines=("cu118", "cu121", "cu124", *_LINES),
        states="address, and local version: 2.14.0+cu126",
        hashes="SHA-256",
        terms=_OF_PROJECT,
        documentation="https://pytorch.org/get-started/locally/",
    ),
    KnownSource(
        name="astral",
        publisher="Astral",
        base="https://wheels.astral.sh/simple",
        pages=("{line}/",),
        form="simple index of each CUDA line",
        projects=(
            *("causal-conv1d", "deep-gemm", "deepspeed", "flash-attn", "flash-attn-3"),
            *("grouped-gemm", "mamba-ssm", "sageattention", "transformer-engine-torch", "vllm"),
        ),
        lines=("cu126", "cu128", "cu129", "cu130"),
        states="address, and local version: cu.12.8.torch.2.11",
        hashes="SHA-256",
        terms=_OF_PROJECT,
        documentation="https://github.com/astral-sh-build",
    ),
    _releases("flash-attn", "Dao-AILab/flash-attention", "flash-attn"),
    _releases("causal-conv1d", "Dao-AILab/causal-conv1d", "causal-conv1d"),
    _releases("mamba", "state-spaces/mamba", "mamba-ssm"),
    _releases("exllamav3", "turboderp-org/exllamav3", "exllamav3"),
    _releases("gptqmodel", "ModelCloud/GPTQModel", "gptqmodel"),
    _releases("bitsandbytes", "bitsandbytes-foundation/bitsandbytes", "bitsandbytes"),
    _releases(
        "flash-attn-prebuild",
        "mjun0812/flash-attention-prebuild-wheels",
        "flash-attn",
        publisher="a third party",
    ),
    KnownSource(
        name="pyg",
        publisher="PyG",
        base="https://data.pyg.org/whl",
        pages=("torch-{torch}.0%2B{line}.html",),
        form="page of links of each PyTorch and CUDA",
        projects=("pyg-lib", "torch-cluster", "torch-scatter", "torch-sparse", "torch-spline-conv"),
        lines=("cu124", "cu126", "cu128", "cu129", "cu130"),
        torches=_TORCHES,
        states="address, and local version: pt28cu128",
        hashes="none",
        terms="MIT",
        documentation="https://pytorch-geometric.readthedocs.io/en/latest/install/installation.html",
    ),
    KnownSource(
        name="natten",
        publisher="SHI Labs",
        base="https://whl.natten.org",
        pages=("",),
        form="page of links",
        projects=("natten",),
        states="local version: torch2110cu130",
        hashes="none",
        terms="MIT",
        documentation="https://natten.org/install/",
    ),
    KnownSource(
        name="gsplat",
        publisher="Nerfstudio",
        base="https://docs.gsplat.studio/whl",
        pages=("",),
        form="simple index",
        projects=("gsplat",),
        states="local version: pt24cu124",
        hashes="none",
        terms="Apache-2.0",
        documentation="https://docs.gsplat.studio",
    ),
    KnownSource(
        name="flashinfer",
        publisher="FlashInfer",
        base="https://flashinfer.ai/whl",
        pages=("{line}/",),
        form="simple index of each CUDA line",
        projects=("flashinfer-jit-cache",),
        lines=("cu128", "cu129", "cu130"),
        states="address, and local version: cu129",
        hashes="SHA-256",
        terms="Apache-2.0",
        documentation="https://docs.flashinfer.ai/installation.html",
    ),
    KnownSource(
        name="llama-cpp-python",
        publisher="the project itself",
        base="https://abetlen.github.io/llama-cpp-python/whl",
        pages=("{line}/",),
        form="simple index of each CUDA line",
        projects=("llama-cpp-python",),
        lines=("cu121", "cu122", "cu123", "cu124", "cu125"),
        states="address only",
        hashes="none",
        terms="MIT",
        documentation="https://llama-cpp-python.readthedocs.io",
    ),
    KnownSource(
        name="sglang",
        publisher="SGLang",
        base="https://docs.sglang.ai/whl",
        pages=("{line}/",),
        form="simple index of each CUDA line",
        projects=("sgl-kernel",),
        lines=("cu124", "cu126", "cu128", "cu129", "cu130"),
        states="address, and local version: cu130",
        hashes="none",
        terms="Apache-2.0",
        documentation="https://docs.sglang.ai/get_started/install.html",
    ),
    KnownSource(
        name="openmmlab",
        publisher="OpenMMLab",
        base="https://download.openmmlab.com/mmcv/dist",
        pages=("{line}/torch{torch}/index.html",),
        form="page of links of each PyTorch and CUDA",
        projects=("mmcv",),
        lines=("cu118", "cu121"),
        torches=("2.0", "2.1", "2.2", "2.3", "2.4"),
        states="address only",
        hashes="none",
        terms="Apache-2.0",
        documentation="https://mmcv.readthedocs.io/en/latest/get_started/installation.html",
    ),
    KnownSource(
        name="nvidia",
        publisher="NVIDIA",
        base="https://pypi.nvidia.com",
        pages=("",),
        form="simple index",
        projects=(
            *("cudf-cu12", "cudf-cu13", "cugraph-cu12", "cugraph-cu13", "cuml-cu12", "cuml-cu13"),
            *("nvidia-dali-cuda120", "nvidia-dali-cuda130", "pylibraft-cu12", "pylibraft-cu13"),
            *("raft-dask-cu12", "raft-dask-cu13", "rmm-cu12", "rmm-cu13", "tensorrt-cu12"),
            "tensorrt-cu13",
        ),
        states="the project's name: cudf-cu13",
        hashes="SHA-256",
        terms="the licence of each project; NVIDIA's own for its libraries",
        documentation="https://docs.rapids.ai/install/",
    ),
)
_BY_NAME = {source.name: source for source in KNOWN_SOURCES}


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The known sources to query, and where copies of them are.

    Attributes:
        names: of the sources.
        bases: addresses of copies, by name.
    """

    names: tuple[str, ...] = ()
    bases: Mapping[str, str] = field(default_factory=dict)

    def of(self, project: str) -> tuple[SourcePage, ...]:
        """Return the pages of the sources that may have a project."""
        sources = (_BY_NAME[name] for name in self.names)
        holders = (source for source in sources if project in source.projects)
        return tuple(page for source in holders for page in source.addresses(self.bases))


def read_sources(words: Sequence[str], environ: Mapping[str, str]) -> Sources:
    """Return the sources of an option, or else of a variable; all where neither names any.

    Args:
        words: of `--sources`: names, or `none`.
        environ: cuwheel's own variables are among them.

    Raises:
        UsageError: there is no such source, or CUWHEEL_SOURCE_BASES is malformed.
    """
    origin, texts = ("--sources", words) if words else (VARIABLE, [environ.get(VARIABLE, "")])
    names = [name for text in texts for name in text.replace(",", " ").split()]
    if names == [NONE]:
        return Sources()
    for name in names:
        if name not in _BY_NAME:
            raise UsageError(
                f"{origin} names {name}, which is no known source",
                why=suggest(name, (*_BY_NAME, NONE)),
                fix=f"write {NONE}, or some of {', '.join(_BY_NAME)}",
            )
    return Sources(names=tuple(dict.fromkeys(names)) or tuple(_BY_NAME), bases=_bases(environ))


def _bases(environ: Mapping[str, str]) -> dict[str, str]:
    lines = environ.get(LINES_VARIABLE, "")
    bases = {"pytorch": lines} if lines else {}
    for word in environ.get(BASES_VARIABLE, "").split():
        name, _, address = word.partition("=")
        if name not in _BY_NAME or not re.match(r"(https?|file)://", address):
            raise UsageError(
                f"{BASES_VARIABLE} says {word}",
                why=suggest(name, _BY_NAME) if name not in _BY_NAME else "it names no address",
                fix=f"write {BASES_VARIABLE}=pytorch=https://HOST/whl, several separated by blanks",
            )
        bases[name] = address
    return bases
