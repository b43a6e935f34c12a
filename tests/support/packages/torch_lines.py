"""PyTorch's index of CUDA lines in small: stand-ins for its wheels, in its layout."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from cuwheel.base.formats.wheel.archive import pack
from tests.support.factories import EPOCH
from tests.support.servers.http import running

PYTHON = "cp311"


def add_torch(whl: Path, version: str, cuda: str) -> Path:
    """Add a wheel to `whl/cuNNN/torch/`, and list it on the page with its hash."""
    folder = whl.parent / f"torch-{version}"
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("")
    (folder / "torch" / "version.py").write_text(f"__version__ = {version!r}\ncuda = {cuda!r}\n")
    info = folder / f"torch-{version}.dist-info"
    info.mkdir()
    tag = f"{PYTHON}-{PYTHON}-manylinux_2_28_x86_64"
    (info / "WHEEL").write_text(
        f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n"
    )
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\nRequires-Python: >=3.10\n"
    )
    project = whl / f"cu{cuda.replace('.', '')}" / "torch"
    project.mkdir(parents=True, exist_ok=True)
    wheel = project / f"torch-{version}-{tag}.whl"
    pack(folder, wheel, epoch=EPOCH)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    with (project / "index.html").open("a") as page:
        page.write(f'<a href="{quote(wheel.name)}#sha256={digest}">{wheel.name}</a><br/>\n')
    return wheel


@contextlib.contextmanager
def serving_lines(folder: Path) -> Iterator[str]:
    """Serve `whl` of a folder, as HTML alone; gives its address."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)) as address:
        yield f"{address}/whl"
