"""The engine's own environment, made from locks of one package in a folder."""

from __future__ import annotations

import base64
import dataclasses
import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from cuwheel.base.errors import FileAccessError, InstallError, LockError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import sha256_of_file
from tests.support.factories import write_wheel
from tests.support.secrets import arguments_with
from tests.support.servers.http import Site, serving, slow_server
from tests.support.servers.mirrors import mirror_wheels
from tests.support.toolchains.foreign_locks import foreign_flock

_MAKING = "making cuwheel's own environment from envs/tiny.lock (once)"
_WHERE = "import tiny_cuda; print(tiny_cuda.__file__)"


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """Copy of the package with a lock of its own, and a folder in the place of the index.

    `options` are those of the Python that nox runs in.
    """

    folder: Path
    options: tuple[str, ...] = ()

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def environments(self) -> list[Path]:
        return [path for path in (self.cache / "engine").iterdir() if path.is_dir()]

    def write_lock(self, text: str) -> None:
        (self.folder / "envs" / "tiny.lock").write_text(text)

    @property
    def variables(self) -> dict[str, str]:
        return {
            "PATH": os.defpath,
            "HOME": str(self.folder.parent / "home"),  # virtualenv keeps its seeds there
            "CUWHEEL_CACHE": str(self.cache),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.folder / "wheels"),
        }

    def start(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *self.options, "-m", "cuwheel.bootstrap", "tiny", *command],
            cwd=self.folder,
            env={**self.variables, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def start_installing(self) -> subprocess.Popen[str]:
        """Start, and wait until the first step has begun to write the environment."""
        process = self.start("-c", "pass")
        deadline = time.monotonic() + 20
        while not list(self.cache.glob("engine/*/bin")):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return process

    def run(self, *command: str, **variables: str) -> tuple[int, str]:
        """Return status and output."""
        with self.start(*command, **variables) as process:
            output, _ = process.communicate()
        return process.returncode, output


def make_checkout(folder: Path) -> Checkout:
    shutil.copytree(
        ROOT / "cuwheel", folder / "cuwheel", ignore=shutil.ignore_patterns("__pycache__")
    )
    (folder / "envs").mkdir()
    checkout = Checkout(folder=folder)
    wheel = write_wheel(folder / "wheels", {"tiny_cuda/__init__.py": b""}, tag="py3-none-any")
    checkout.write_lock(f"tiny-cuda==1.2.3 --hash=sha256:{sha256_of_file(wheel)}\n")
    return checkout


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout with an environment."""
    checkout = make_checkout(tmp_path_factory.mktemp("made"))
    status, output = checkout.run("-c", "pass")
    assert (status, _MAKING in output) == (0, True)
    return checkout


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout without an environment."""
    return make_checkout(tmp_path_factory.mktemp("fresh"))


def test_runs_in_environment_of_the_lock(ready: Checkout) -> None:
    status, output = ready.run("-c", _WHERE)

    assert status == 0
    assert Path(output.strip()).is_relative_to(ready.environments[0])


@pytest.mark.e2e
def test_installs_as_locked_under_any_settings_of_pip(fresh: Checkout, tmp_path: Path) -> None:
    elsewhere = str(tmp_path / "elsewhere")
    config = tmp_path / "pip.conf"
    config.write_text(f"[install]\ntarget = {elsewhere}\n")
    places = dict.fromkeys(("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_CONSTRAINT"), elsewhere)
    switches = dict.fromkeys(("PIP_DRY_RUN", "PIP_USER", "VIRTUALENV_NO_PIP"), "1")

    status, output = fresh.run("-c", _WHERE, PIP_CONFIG_FILE=str(config), **places, **switches)

    assert status == 0, output
    assert not (tmp_path / "elsewhere").exists()


def test_makes_environment_once(ready: Checkout) -> None:
    _, output = ready.run("-c", "pass")

    assert output == ""


@pytest.mark.e2e
def test_compiles_modules_once_and_outside_the_checkout(fresh: Checkout) -> None:
    script = "import cuwheel.check.explain.catalogue as module; print(module.__cached__)"

    status, output = fresh.run("-c", script, PYTHONDONTWRITEBYTECODE="1")

    compiled = Path(output.splitlines()[-1])
    assert status == 0
    assert compiled.is_relative_to(fresh.environments[0] / "bytecode")
    time_ = compiled.stat().st_mtime_ns
    assert fresh.run("-c", script) == (0, f"{compiled}\n")
    assert compiled.stat().st_mtime_ns == time_
    # The bootstrap itself runs in the Python that started it, with that one's settings.
    assert not [*(fresh.folder / "cuwheel" / "check").rglob("*.pyc")]


def test_refuses_cache_that_can_not_be_locked(fresh: Checkout, tmp_path: Path) -> None:
    status, output = fresh.run("-c", "pass", **foreign_flock(tmp_path, errno.ENOLCK))

    assert status == FileAccessError.exit_code
    assert ".lock can't be locked\n  because  system error: No locks available" in output


def test_holds_locked_packages_only(ready: Checkout) -> None:
    [site_packages] = ready.environments[0].glob("lib/python*/site-packages")

    names = {path.name.split("-")[0] for path in site_packages.glob("*.dist-info")}

    assert names - {"pip", "setuptools", "wheel"} == {"tiny_cuda"}


@pytest.mark.e2e
def test_makes_incomplete_environment_again(fresh: Checkout) -> None:
    fresh.run("-c", "pass")
    [folder] = fresh.environments
    (folder / "complete").unlink()
    (folder / "bin" / "python").unlink()

    status, _ = fresh.run("-c", _WHERE)

    assert status == 0


@pytest.mark.e2e
def test_two_at_once_make_one(fresh: Checkout) -> None:
    with fresh.start("-c", _WHERE) as first, fresh.start("-c", _WHERE) as second:
        outputs = [first.communicate()[0], second.communicate()[0]]

    assert (first.returncode, second.returncode) == (0, 0)
    assert sum(_MAKING in output for output in outputs) == 1


@pytest.mark.parametrize(
    ("lock", "word"),
    [
        (f"tiny-cuda==1.2.3 --hash=sha256:{'0' * 64}\n", "HASHES"),
        ("tiny-cuda==1.2.3\n", "--hash"),
        (f"other==1.0 --hash=sha256:{'0' * 64}\n", "other==1.0"),
    ],
    ids=["wrong hash", "no hash", "not there"],
)
def test_refuses_lock(fresh: Checkout, lock: str, word: str) -> None:
    fresh.write_lock(lock)

    status, output = fresh.run("-c", "pass")

    assert status == InstallError.exit_code
    assert "error: cuwheel's own environment could not be made" in output
    assert word in output
    assert not (fresh.environments[0] / "complete").exists()


@pytest.mark.e2e
def test_python_without_nox_makes_it_with_venv(fresh: Checkout) -> None:
    bare = dataclasses.replace(fresh, options=("-S",))  # as if nothing were installed

    status, output = bare.run("-c", "pass")

    assert (status, output) == (0, f"cuwheel: {_MAKING}\n")


@pytest.mark.e2e
def test_runs_no_module_of_the_working_directory(fresh: Checkout, tmp_path: Path) -> None:
    """`python -m venv` takes those first; a log may lie among another user's files."""
    for name in ("argparse", "logging", "virtualenv"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a stranger runs')")
    start = "import sys; del sys.path[0]; from cuwheel import bootstrap as b; b.main(sys.argv[1:])"

    finished = subprocess.run(
        [sys.executable, "-c", start, "tiny", "-c", "pass"],
        cwd=tmp_path,
        env={**fresh.variables, "PYTHONPATH": str(fresh.folder)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (finished.returncode, finished.stderr) == (0, f"cuwheel: {_MAKING}\n")


@pytest.mark.parametrize(
    ("variables", "advice"),
    [({}, "through nox"), ({"CUWHEEL_ENTRY": "cuwheel"}, "`--with virtualenv`")],
    ids=["nox", "console script"],
)
def test_names_python_that_can_make_none(
    fresh: Checkout, tmp_path: Path, variables: dict[str, str], advice: str
) -> None:
    """Debian's without python3-venv: a standard library that has no ensurepip."""
    standard = Path(os.__file__).parent
    library = tmp_path / "lib" / standard.name
    library.mkdir(parents=True)
    for path in standard.iterdir():
        if path.name not in {"ensurepip", "site-packages"}:
            (library / path.name).symlink_to(path)
    bare = dataclasses.replace(fresh, options=("-S",))

    status, output = bare.run("-c", "pass", PYTHONHOME=str(tmp_path), **variables)

    assert status == InstallError.exit_code
    assert "has neither virtualenv, which comes with nox, nor venv" in output
    assert advice in output


def test_names_missing_lock(fresh: Checkout) -> None:
    (fresh.folder / "envs" / "tiny.lock").unlink()

    status, output = fresh.run("-c", "pass")

    assert status == LockError.exit_code
    assert output.startswith("error: envs/tiny.lock is missing")


def test_reports_cache_that_can_not_be_written(fresh: Checkout) -> None:
    fresh.cache.write_text("a file in its place")

    status, output = fresh.run("-c", "pass")

    assert (status, "Traceback" in output) == (FileAccessError.exit_code, False)
    assert f"error: {fresh.cache}" in output


@pytest.mark.parametrize("words", [("--dist", "/proc/none"), ("--work=/dev/null/none",)])
def test_refuses_folder_before_the_installation(fresh: Checkout, words: tuple[str, ...]) -> None:
    status, output = fresh.run("-m", "cuwheel", "build", "sample", *words)

    assert status == FileAccessError.exit_code
    assert "none can't be written" in output
    assert _MAKING not in output


def test_names_index_that_is_out_of_reach(fresh: Checkout) -> None:
    unreachable = "http://127.0.0.1:9/simple"
    (fresh.folder / "wheels").rename(fresh.folder / "gone")

    status, output = fresh.run(
        "-c", "pass", PIP_NO_INDEX="0", PIP_INDEX_URL=unreachable, PIP_RETRIES="1"
    )

    assert status == InstallError.exit_code
    assert "because  pip's last attempt: 'NewConnectionError(" in output


@pytest.mark.e2e
def test_offline_uses_no_index(fresh: Checkout) -> None:
    (fresh.folder / "wheels").rename(fresh.folder / "gone")

    status, output = fresh.run("-c", "pass", "--offline", PIP_NO_INDEX="0")

    assert status == InstallError.exit_code
    assert "run once without --offline" in output
    assert "connection" not in output


def as_mirror(checkout: Checkout) -> Path:
    """Return a mirror with the wheel of the lock, which lies nowhere else."""
    folder = checkout.folder.parent / f"{checkout.folder.name}-mirror"
    mirror_wheels(checkout.folder / "wheels", folder)
    return folder


@pytest.mark.e2e
def test_takes_wheels_from_served_mirror(fresh: Checkout) -> None:
    folder = as_mirror(fresh)
    files = {f"/m/{path.relative_to(folder)}": path for path in folder.rglob("*")}
    site = Site(files={name: path.read_bytes() for name, path in files.items() if path.is_file()})

    site.password = "Basic " + base64.b64encode(b"me:geheim").decode()

    with serving(site), arguments_with("geheim") as leaks:
        status, output = fresh.run(
            *("-c", _WHERE),
            PIP_NO_INDEX="0",
            PIP_INDEX_URL="http://127.0.0.1:9/simple",
            CUWHEEL_MIRROR=site.url("/m", login="me:geheim@"),
        )

    assert status == 0, output
    assert "/m/wheels.html" in [path for path, _ in site.asked]
    assert "geheim" not in output
    assert leaks == set()


@pytest.mark.e2e
def test_gives_password_of_mirror_to_no_other_host(fresh: Checkout) -> None:
    """Where the mirror's server redirects to another one."""
    folder = as_mirror(fresh)
    [wheel] = folder.glob("downloads/*/*.whl")
    path = f"/m/{wheel.relative_to(folder)}"
    site = Site(
        files={"/m/wheels.html": (folder / "wheels.html").read_bytes()},
        password="Basic " + base64.b64encode(b"me:geheim").decode(),
    )

    with serving(Site(files={path: wheel.read_bytes()})) as other, serving(site):
        site.moved[path] = f"http://localhost:{other.port}{path}"
        status, output = fresh.run(
            *("-c", _WHERE),
            PIP_NO_INDEX="0",
            PIP_TRUSTED_HOST="localhost",
            CUWHEEL_MIRROR=site.url("/m", login="me:geheim@"),
        )

    assert status == 0, output
    assert other.logins == [""]


@pytest.mark.e2e
def test_ends_pip_where_the_mirror_sends_a_byte_now_and_then(fresh: Checkout) -> None:
    with slow_server(0.05) as address:
        status, output = fresh.run(
            *("-c", "pass"),
            PIP_NO_INDEX="0",
            NO_PROXY="127.0.0.1",
            CUWHEEL_MIRROR=address,
            CUWHEEL_SLOW_NETWORK="0.02",
        )

    assert status == InstallError.exit_code
    assert "pip was terminated: less than 368640 bytes came in 2 seconds" in output
    assert "CUWHEEL_SLOW_NETWORK=4" in output


def test_reports_invalid_mirror(fresh: Checkout) -> None:
    status, output = fresh.run("-c", "pass", CUWHEEL_MIRROR="/srv/mirror")

    assert status == UsageError.exit_code
    assert "write file:///srv/mirror" in output


@pytest.mark.e2e
def test_interrupt_leaves_no_traceback(fresh: Checkout) -> None:
    with fresh.start_installing() as process:
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate()

    assert (process.returncode, "Traceback" in output) == (130, False)
    assert fresh.run("-c", _WHERE)[0] == 0


def test_lock_outlives_killed_run_until_its_steps_end(fresh: Checkout) -> None:
    with fresh.start_installing() as process:
        process.kill()
        process.wait()
        [path] = fresh.cache.glob("engine/*.lock")

        with path.open("w") as guard, pytest.raises(BlockingIOError):
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.e2e
def test_reads_utf8_under_every_locale(ready: Checkout) -> None:
    plain = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    assert ready.run("-c", "import sys; print(sys.flags.utf8_mode)", **plain) == (0, "1\n")


@pytest.mark.e2e
def test_makes_another_for_changed_lock(fresh: Checkout) -> None:
    fresh.run("-c", "pass")
    fresh.write_lock((fresh.folder / "envs" / "tiny.lock").read_text() + "# changed\n")

    _, output = fresh.run("-c", "pass")

    assert _MAKING in output
    assert len(fresh.environments) == 2


@pytest.mark.e2e
def test_takes_wheels_from_mirror_offline(fresh: Checkout) -> None:
    folder = as_mirror(fresh)

    status, output = fresh.run(
        *("-c", _WHERE, "--offline"),
        PIP_NO_INDEX="0",
        PIP_INDEX_URL="http://127.0.0.1:9/simple",
        CUWHEEL_MIRROR=folder.as_uri(),
    )

    assert status == 0, output
