"""A published site behind a real server, read by real installers and a real browser."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from cuwheel.base.formats.wheel.publication import statement_of
from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from cuwheel.base.system.console import Console
from cuwheel.publish.index.check.walk import CheckRequest, check_indexes
from cuwheel.publish.index.site import SiteRequest, write_site
from tests.build.wheelhouse.test_entries import STATEMENT
from tests.build.wheelhouse.test_folder_index import served
from tests.support.machines.pythons import SAFE_PATH
from tests.support.packages.toy_wheel import add_wheel
from tests.support.requirements import require
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

_JSON = "application/vnd.pypi.simple.v1+json"
# What nginx needs besides the page's own words: an ordinary user may run it.
_NGINX = """
{user} worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; include /etc/nginx/mime.types;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  {snippet}
}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    for version, year in (("1.0+cu130", 2025), ("2.0+cu130", 2026), ("3.0+cu122", 2026)):
        wheel = add_wheel(folder / "dist", version)
        statement_of(wheel).write_text(json.dumps(STATEMENT).replace("2026", str(year)))
    write_site(
        SiteRequest(folders=(folder / "dist",), site=folder / "site", cache=folder / "cache")
    )
    return folder / "site"


@pytest.fixture(scope="module")
def address(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site behind nginx, configured as docs/how-to/publish.md says."""
    require("nginx", "a site behind a server that reads the Accept header")
    folder = tmp_path_factory.mktemp("nginx")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = (ROOT / "docs" / "how-to" / "publish.md").read_text()
    snippet = re.search(r"```nginx\n(.*?)```", text, re.DOTALL)
    assert snippet
    told = snippet[1].replace("listen 80", f"listen 127.0.0.1:{port}")
    told = told.replace("/srv/public", str(site))
    user = "" if os.getuid() else "user root;"  # its usual user can't read a test's folder
    config = folder / "nginx.conf"
    config.write_text(_NGINX.format(folder=folder, snippet=told, user=user))
    with subprocess.Popen(["nginx", "-c", str(config), "-e", str(folder / "error.log")]) as server:
        wait_for(lambda: server.poll() is not None or _answers(port))
        yield f"http://127.0.0.1:{port}"
        server.terminate()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def install(program: list[str | Path], index: str, target: Path, *words: str) -> process.Finished:
    return process.run(
        [*program, "--target", target, "--index-url", index, *words],
        env={"PATH": os.defpath, "HOME": str(target.parent), "PIP_CONFIG_FILE": os.devnull},
        check=False,
    )


def test_server_chooses_the_form_that_is_asked_for(address: str) -> None:
    page = f"{address}/cu130/simple/toy/"

    plain = requests.get(page, timeout=10)
    data = requests.get(page, headers={"Accept": _JSON}, timeout=10)

    assert plain.headers["Content-Type"] == "text/html"
    assert data.headers["Content-Type"] == _JSON
    assert data.json()["versions"] == ["1.0+cu130", "2.0+cu130"]
    assert requests.get(f"{address}/simple/other/", timeout=10).status_code == 404


def test_pip_installs_through_nginx(address: str, tmp_path: Path) -> None:
    process.run(
        [sys.executable, "-m", "virtualenv", "--quiet", "--no-periodic-update", tmp_path / "env"],
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
    )
    pip: list[str | Path] = [tmp_path / "env/bin/python", "-m", "pip", "install", "--no-cache-dir"]

    done = install(pip, f"{address}/cu122/simple/", tmp_path / "out", "toy")

    assert "3.0+cu122" in (tmp_path / "out" / "toy.py").read_text(), done.output


def browse(address: str, folder: Path) -> str:
    """A page as a browser has it after its script ran."""
    require("chromium", "the pages for people in a browser")
    words = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}")
    command = ("chromium", *words, "--virtual-time-budget=5000", "--dump-dom", address)
    done = process.run(command, env={"PATH": os.environ["PATH"], "HOME": str(folder)})
    return done.output


def shown(page: str) -> list[str]:
    """Versions in the rows that aren't hidden."""
    rows = re.findall(r"<tr([^>]*data-text[^>]*)>.*?</td><td>([^<]*)</td>", page)
    return sorted(version for attributes, version in rows if "hidden" not in attributes)


@pytest.mark.parametrize(
    ("query", "versions"),
    [
        ("", ["1.0+cu130", "2.0+cu130", "3.0+cu122"]),
        ("?cuda=cu122", ["3.0+cu122"]),
        ("?text=toy+2.0", ["2.0+cu130"]),
        ("?cuda=cu130&text=nothing", []),
    ],
)
def test_search_in_a_browser(query: str, versions: list[str], address: str, tmp_path: Path) -> None:
    page = browse(f"{address}/{query}", tmp_path)

    assert shown(page) == versions
    assert f'id="count">{len(versions)}<' in page


def test_lines_to_copy_name_the_server(address: str, tmp_path: Path) -> None:
    page = browse(f"{address}/packages/toy/", tmp_path)

    assert f"pip install 'toy @ {address}/files/toy-3.0%2Bcu122-py3-none-any.whl#sha256=" in page
    assert f'url = "{address}/cu122/simple/"' in page
    assert "ADDRESS/" not in page.partition("<script>")[0]


def test_pages_load_nothing(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text()
        assert not re.search(r'(src|@import|url\()\s*=?\s*"?https?:', text)
        assert not re.search(r"<(link|script|img)[^>]+(href|src)=", text)


_PROJECT = """[project]
name = "user"
version = "0"
requires-python = ">=3.10"
dependencies = ["toy"]

[tool.poetry]
package-mode = false

[tool.pdm]
distribution = false

"""
_SHOW = "import toy; print(toy.VERSION)"
_CLIENTS = ("uv", "poetry", "pdm", "hatch")


@pytest.fixture(scope="module")
def clients() -> Path:
    """The folder of the programs that envs/clients.lock pins."""
    code = "import sysconfig; print(sysconfig.get_path('scripts'))"
    done = process.run(
        [sys.executable, SAFE_PATH, "-m", "cuwheel.bootstrap", "clients", "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return Path(done.output.splitlines()[-1])


def pasted(client: str, index: str, project: Path) -> str:
    """Write a project with what the how-to says, and give the command that it names."""
    text = (ROOT / "docs" / "how-to" / "publish.md").read_text()
    found = re.search(rf"```toml\n# ({client} [^\n]*)\n(.*?)```", text, re.DOTALL)
    assert found
    said = found[2].replace("https://wheels.example.org/cu130/simple/", index)
    project.mkdir()
    written = _PROJECT + said.replace("causal-conv1d", "toy")
    if client == "hatch":  # which would build the project itself, from an index that isn't there
        written = written.replace("default]\n", "default]\nskip-install = true\n", 1)
    (project / "pyproject.toml").write_text(written)
    return found[1]


def install_in_project(client: str, index: str, folder: Path, clients: Path) -> str:
    """What the module says in the environment that a client made for a project; its words else."""
    command = pasted(client, index, folder / "project").split()
    done = process.run(
        [clients / command[0], *command[1:], *(["-c", _SHOW] if client == "hatch" else [])],
        cwd=folder / "project",
        env={
            "PATH": f"{clients}{os.pathsep}{os.defpath}",
            "HOME": str(folder),
            "NO_PROXY": "127.0.0.1",
            "PIP_CONFIG_FILE": os.devnull,
            "UV_PYTHON_DOWNLOADS": "never",
            "POETRY_VIRTUALENVS_IN_PROJECT": "true",
            "PDM_CHECK_UPDATE": "0",
            "HATCH_DATA_DIR": str(folder / "project"),
        },
        check=False,
    )
    installed = [*(folder / "project").rglob("site-packages/toy.py")]
    return installed[0].read_text() if installed else done.output


@pytest.mark.parametrize("client", _CLIENTS)
def test_client_installs_through_nginx(
    client: str, address: str, clients: Path, tmp_path: Path
) -> None:
    said = install_in_project(client, f"{address}/cu130/simple/", tmp_path, clients)

    assert "2.0+cu130" in said


@pytest.mark.parametrize("client", _CLIENTS)
def test_client_installs_from_plain_server(
    client: str, site: Path, clients: Path, tmp_path: Path
) -> None:
    with served(site) as (address, _):
        said = install_in_project(client, f"{address}/cu130/simple/", tmp_path, clients)

    assert "2.0+cu130" in said


@pytest.mark.parametrize("client", [one for one in _CLIENTS if one != "poetry"])
def test_client_installs_from_files(client: str, site: Path, clients: Path, tmp_path: Path) -> None:
    index = f"{(site / 'cu130' / 'simple').as_uri()}/"

    assert "2.0+cu130" in install_in_project(client, index, tmp_path, clients)


@pytest.mark.parametrize("is_quick", [False, True])
def test_site_behind_nginx_is_clean(
    *, is_quick: bool, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    places = tuple(f"{address}/{name}" for name in ("simple/", "cu130/simple/", "cu122/simple/"))

    result = check_indexes(CheckRequest(places=places, is_quick=is_quick), Console())

    assert (result.violations, result.files) == ([], 3)
