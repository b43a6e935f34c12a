from __future__ import annotations

import base64
import functools
import http.server
import io
import os
import sys
import tarfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import InstallError, LockError
from cuwheel.index.folder_index import write_index
from cuwheel.paths import ROOT
from cuwheel.pypi.uv import forget, install, install_into, make_environment, resolve
from cuwheel.system import process
from cuwheel.system.files import sha256_of_file
from tests.support.factories import make_workspace, noise, write_wheel
from tests.support.mirrored import mirror_wheels
from tests.support.requirements import require
from tests.support.secrets import arguments_with
from tests.support.server import Site, serving, slow_server

if TYPE_CHECKING:
    from cuwheel.workspace.workspace import Workspace


def add_wheel(dist: Path, name: str, *requires: str, python: str = "") -> Path:
    # Requires-Python is a header line like any other.
    lines = (*requires, *([f"{name}\nRequires-Python: {python}"] if python else []))
    files = {f"{name}.py": b""}
    return write_wheel(dist, files, name=name, version="1.0", tag="py3-none-any", requires=lines)


def pin(*wheels: Path) -> str:
    """Lines of a lock for these wheels."""
    names = (wheel.name.split("-")[0] for wheel in wheels)
    pairs = zip(names, wheels, strict=True)
    return "".join(f"{name}==1.0 --hash=sha256:{sha256_of_file(path)}\n" for name, path in pairs)


@pytest.fixture
def dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of our own, which takes the place of the configured one; with one wheel, `toy`."""
    folder = tmp_path / "index"
    add_wheel(folder, "toy")
    monkeypatch.setenv("UV_DEFAULT_INDEX", write_index(folder).as_uri())
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


@pytest.fixture
def python(workspace: Workspace) -> Path:
    make_environment(
        workspace.work / "env",
        Path(sys.executable),
        cache=workspace.cache,
        log=workspace.log("test"),
    )
    return workspace.work / "env" / "bin" / "python"


def put(workspace: Workspace, python: Path, text: str, *, offline: bool = False) -> None:
    """Install a lock with this text."""
    lock = workspace.folder("locks") / "test.lock"
    lock.write_text(text)
    log = workspace.log("test")
    install(
        python, lock, cache=workspace.cache, offline=offline, log=log, console=workspace.console
    )


def installed(python: Path) -> set[str]:
    packages = python.parent.parent.glob("lib/python*/site-packages/*.dist-info")
    return {path.name.split("-")[0] for path in packages}


def test_makes_environment_without_pip(python: Path) -> None:
    answer = process.run([python, "-I", "-m", "pip"], env={}, check=False)

    assert "No module named pip" in answer.output


def test_names_python_that_is_missing(workspace: Workspace) -> None:
    with pytest.raises(InstallError) as caught:
        make_environment(
            workspace.work / "env",
            Path("/no/python"),
            cache=workspace.cache,
            log=workspace.log("test"),
        )

    assert "/no/python" in caught.value.why
    assert "--python" in caught.value.fix


def test_installs_locked_wheel(workspace: Workspace, python: Path, dist: Path) -> None:
    put(workspace, python, pin(*dist.glob("*.whl")))

    assert installed(python) == {"toy"}


def test_ends_uv_where_the_index_sends_a_byte_now_and_then(
    workspace: Workspace, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUWHEEL_SLOW_NETWORK", "0.02")
    with slow_server(0.05) as address:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{address}/simple")
        with pytest.raises(InstallError) as caught:
            put(workspace, python, f"toy==1.0 --hash=sha256:{'0' * 64}\n")

    assert caught.value.why == "uv was terminated: less than 368640 bytes came in 2 seconds"
    assert "CUWHEEL_SLOW_NETWORK=4" in caught.value.fix


def test_refuses_file_with_another_hash(workspace: Workspace, python: Path, dist: Path) -> None:
    assert dist.is_dir()

    with pytest.raises(InstallError) as caught:
        put(workspace, python, f"toy==1.0 --hash=sha256:{'0' * 64}\n")

    assert "Hash mismatch for `toy==1.0`" in caught.value.why
    assert "differs from the locked one: find out why" in caught.value.fix


def test_refuses_lock_without_hashes(workspace: Workspace, python: Path, dist: Path) -> None:
    assert dist.is_dir()

    with pytest.raises(LockError, match=r"test\.lock is not a valid lock") as caught:
        put(workspace, python, "toy==1.0\n")

    assert "nox -s lock" in caught.value.fix


def test_keeps_hashes_whatever_the_caller_has_set(
    workspace: Workspace, python: Path, dist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dist.is_dir()
    monkeypatch.setenv("UV_NO_VERIFY_HASHES", "1")

    with pytest.raises(InstallError, match="could not be installed"):
        put(workspace, python, f"toy==1.0 --hash=sha256:{'0' * 64}\n")


def test_ignores_settings_of_the_folder_it_runs_in(
    workspace: Workspace, python: Path, dist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dist / "uv.toml").write_text("this is no TOML")
    monkeypatch.chdir(dist)

    put(workspace, python, pin(*dist.glob("*.whl")))

    assert installed(python) == {"toy"}


def test_installs_only_what_is_required(workspace: Workspace, python: Path, dist: Path) -> None:
    wheels = [add_wheel(dist, "wanted", "needed"), add_wheel(dist, "needed"), *dist.glob("toy*whl")]
    write_index(dist)
    lock, only = workspace.folder("locks") / "test.lock", workspace.folder("locks") / "only.txt"
    lock.write_text(pin(*wheels))
    only.write_text(pin(wheels[0]))

    install(
        python,
        lock,
        cache=workspace.cache,
        offline=False,
        log=workspace.log("test"),
        console=workspace.console,
        only=only,
    )

    assert installed(python) == {"wanted", "needed"}


def test_checks_the_hash_of_what_is_required(
    workspace: Workspace, python: Path, dist: Path
) -> None:
    wanted = add_wheel(dist, "wanted", "toy")
    write_index(dist)
    lock, only = workspace.folder("locks") / "test.lock", workspace.folder("locks") / "only.txt"
    lock.write_text(f"toy==1.0 --hash=sha256:{'0' * 64}\n")
    only.write_text(pin(wanted))

    with pytest.raises(InstallError, match="could not be installed") as caught:
        install(
            python,
            lock,
            cache=workspace.cache,
            offline=False,
            log=workspace.log("test"),
            console=workspace.console,
            only=only,
        )

    assert "Hash mismatch for `toy==1.0`" in caught.value.why


def test_tells_the_callers_fix_for_what_is_not_locked(
    workspace: Workspace, python: Path, dist: Path
) -> None:
    wanted = add_wheel(dist, "wanted", "toy")
    write_index(dist)
    only = workspace.folder("locks") / "only.txt"
    only.write_text(pin(wanted))

    with pytest.raises(InstallError) as caught:
        install(
            python,
            only,
            cache=workspace.cache,
            offline=False,
            log=workspace.log("test"),
            console=workspace.console,
            unlocked_fix="add it here",
        )

    assert "`toy`" in caught.value.why
    assert caught.value.fix.startswith("add it here")


def test_says_that_the_cache_is_empty(workspace: Workspace, python: Path) -> None:
    with pytest.raises(InstallError) as caught:
        put(workspace, python, f"toy==1.0 --hash=sha256:{'0' * 64}\n", offline=True)

    assert "without --offline" in caught.value.fix


def test_installs_from_the_cache(
    workspace: Workspace, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = workspace.folder("locks") / "six.in"
    asked.write_text("six\n")
    text = resolve(
        asked,
        python="3.10",
        uploaded_before="2026-01-01T00:00:00Z",
        cache=workspace.cache,
        offline=False,
    )
    put(workspace, python, text)
    make_environment(
        workspace.work / "other",
        Path(sys.executable),
        cache=workspace.cache,
        log=workspace.log("test"),
    )
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")

    put(workspace, workspace.work / "other" / "bin" / "python", text, offline=True)

    assert installed(workspace.work / "other" / "bin" / "python") == {"six"}


def test_names_index_that_is_out_of_reach(
    workspace: Workspace, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")

    with pytest.raises(InstallError) as caught:
        put(workspace, python, f"toy==1.0 --hash=sha256:{'0' * 64}\n")

    assert "http://127.0.0.1:9/simple/toy/" in caught.value.why
    assert "UV_DEFAULT_INDEX" in caught.value.fix


def test_says_that_this_python_is_too_old(workspace: Workspace, python: Path, dist: Path) -> None:
    wheel = add_wheel(dist, "modern", python=">=3.99")
    write_index(dist)

    with pytest.raises(InstallError) as caught:
        put(workspace, python, pin(wheel))

    assert "does not satisfy Python>=3.99" in caught.value.why
    assert "--python" in caught.value.fix


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror with one wheel, `toy`, while the configured index is out of reach."""
    folder = tmp_path / "mirror"
    add_wheel(tmp_path / "wheels", "toy")
    mirror_wheels(tmp_path / "wheels", folder)
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_INDEX", "http://127.0.0.1:9/more")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("CUWHEEL_MIRROR", folder.as_uri())
    return folder


@pytest.mark.parametrize("offline", [True, False])
def test_installs_from_mirror(
    offline: bool,  # noqa: FBT001 - pytest gives it by name
    workspace: Workspace,
    python: Path,
    mirror: Path,
) -> None:
    put(workspace, python, pin(*mirror.glob("downloads/*/*.whl")), offline=offline)

    assert installed(python) == {"toy"}


def test_password_of_mirror_is_in_no_arguments_and_no_log(
    workspace: Workspace, python: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [path.relative_to(mirror) for path in mirror.rglob("*") if path.is_file()]
    site = Site(files={f"/a,b/{name}": (mirror / name).read_bytes() for name in names})
    site.password = "Basic " + base64.b64encode(b"me:geheim").decode()

    with serving(site), arguments_with("geheim") as seen:
        monkeypatch.setenv("CUWHEEL_MIRROR", site.url("/a,b", login="me:geheim@"))
        put(workspace, python, pin(*mirror.glob("downloads/*/*.whl")))

    assert installed(python) == {"toy"}
    assert seen == set()
    assert "geheim" not in workspace.log("test").read_text()


def test_installs_from_served_mirror(
    workspace: Workspace, python: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(mirror))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("CUWHEEL_MIRROR", f"http://127.0.0.1:{server.server_port}")
        put(workspace, python, pin(*mirror.glob("downloads/*/*.whl")))
        server.shutdown()

    assert installed(python) == {"toy"}


def test_says_that_mirror_lacks_package(workspace: Workspace, python: Path, mirror: Path) -> None:
    assert mirror.is_dir()

    with pytest.raises(InstallError) as caught:
        put(workspace, python, f"other==1.0 --hash=sha256:{'0' * 64}\n", offline=True)

    assert "nox -s mirror" in caught.value.fix


@pytest.fixture
def sdist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source distribution whose setup.py leaves a file `ran` behind when it is run."""
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "links"))
    (tmp_path / "links").mkdir()
    path = tmp_path / "links" / "crude-1.0.tar.gz"
    script = f"open({str(tmp_path / 'ran')!r}, 'w')\nfrom setuptools import setup\nsetup()\n"
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo("crude-1.0/setup.py")
        entry.size = len(script)
        archive.addfile(entry, io.BytesIO(script.encode()))
    return path


def test_never_runs_a_source_distribution(
    workspace: Workspace, python: Path, dist: Path, sdist: Path
) -> None:
    assert dist.is_dir()

    with pytest.raises(InstallError, match="could not be installed"):
        put(workspace, python, pin(sdist))

    assert not (sdist.parent.parent / "ran").exists()


def test_installs_into_a_folder(workspace: Workspace, dist: Path, tmp_path: Path) -> None:
    lock = workspace.folder("locks") / "test.lock"
    lock.write_text(pin(*dist.glob("*.whl")))

    install_into(
        tmp_path / "home",
        lock,
        python=Path(sys.executable),
        cache=workspace.cache,
        offline=False,
        log=workspace.log("test"),
        console=workspace.console,
    )

    assert {path.name for path in (tmp_path / "home").iterdir()} == {"toy.py", "toy-1.0.dist-info"}


def test_forgets_what_is_in_the_cache(workspace: Workspace, python: Path, dist: Path) -> None:
    put(workspace, python, pin(*dist.glob("*.whl")))
    cached = list(workspace.cache.rglob("toy.py"))

    forget(["toy"], cache=workspace.cache)

    assert cached
    assert not list(workspace.cache.rglob("toy.py"))


_INSTALL = """
import pathlib, sys
from cuwheel import errors
from cuwheel.pypi import uv
from cuwheel.system import console
home, lock, cache, log = map(pathlib.Path, sys.argv[1:])
try:
    uv.install_into(home, lock, python=pathlib.Path(sys.executable), cache=cache,
                    offline=False, log=log, console=console.Console())
except errors.DiskFullError as error:
    print(error.what)
"""


def test_names_disk_that_is_full(workspace: Workspace, dist: Path, tmp_path: Path) -> None:
    require("namespaces", "what an installation says when its disk is full")
    files = {f"big/{number}.py": noise(1 << 16, number) for number in range(4)}
    big = write_wheel(dist, files, name="big", version="1.0", tag="py3-none-any")
    write_index(dist)
    lock, small = workspace.folder("locks") / "test.lock", tmp_path / "small"
    lock.write_text(pin(big))
    small.mkdir()

    script = 'mount -t tmpfs -o size=64k none "$0" && exec "$@"'
    spaces = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(small)]
    arguments = [
        str(path) for path in (small / "home", lock, workspace.cache, workspace.log("test"))
    ]
    done = process.run(
        [*spaces, sys.executable, "-c", _INSTALL, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.status == 0, done.output
    assert done.output.startswith(f"no space left on the disk of {small}")


def test_resolves_with_hashes_and_cooldown(workspace: Workspace) -> None:
    asked = workspace.folder("locks") / "small.in"
    asked.write_text("iniconfig\n")

    text = resolve(
        asked,
        python="3.10",
        uploaded_before="2024-01-01T00:00:00Z",
        cache=workspace.cache,
        offline=False,
    )

    # 2.0.0 came out on 2023-01-07 and was the newest for two years.
    assert text.startswith("iniconfig==2.0.0 \\\n    --hash=sha256:")


def test_names_neither_index_nor_path_in_a_lock(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workspace.folder("locks")
    (folder / "small.in").write_text("iniconfig\n")
    (folder / "uv.toml").write_text("[pip]\nemit-index-url = true\nemit-find-links = true\n")
    monkeypatch.setenv("UV_CONFIG_FILE", str(folder / "uv.toml"))

    text = resolve(
        folder / "small.in",
        python="3.10",
        uploaded_before="2024-01-01T00:00:00Z",
        cache=workspace.cache,
        offline=False,
    )

    assert "://" not in text
    assert "/" not in text


def test_says_what_cannot_be_resolved(workspace: Workspace) -> None:
    asked = workspace.folder("locks") / "small.in"
    asked.write_text("iniconfig>99\n")

    with pytest.raises(InstallError, match=r"small\.in could not be resolved") as caught:
        resolve(
            asked,
            python="3.10",
            uploaded_before="2024-01-01T00:00:00Z",
            cache=workspace.cache,
            offline=False,
        )

    assert "iniconfig>99" in caught.value.why


def test_says_that_uv_is_missing(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(InstallError, match="uv is missing") as caught:
        forget(["toy"], cache=workspace.cache)

    assert "through nox" in caught.value.fix
