"""Two runs on one GPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.errors import GpuError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.gpu_lock import hold_gpus, lock_folder
from tests.support.waiting import wait_for

_HOLD = """
import sys, time
from pathlib import Path
from cuwheel.base.system.gpu_lock import hold_gpus
with hold_gpus([Path(sys.argv[1])], "root's\\nprocess 7", on_wait=print, gives_up=lambda: False):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "run" / "cuwheel-GPU-1a2b.lock"


@pytest.fixture
def other(lock: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    command = [sys.executable, "-c", _HOLD, str(lock)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline() == "held\n"
        yield child
        child.kill()


@pytest.mark.usefixtures("other")
def test_names_holder_of_the_gpu(lock: Path) -> None:
    messages: list[str] = []

    with (
        pytest.raises(GpuError) as caught,
        hold_gpus([lock], "me", on_wait=messages.append, gives_up=lambda: True),
    ):
        pass

    assert caught.value.what == "GPU-1a2b is in use by another run"
    assert caught.value.why == f"root's process 7 has locked {lock}"


def test_waits_until_the_other_is_killed(lock: Path, other: subprocess.Popen[str]) -> None:
    messages: list[str] = []
    acquired = threading.Event()

    def wait() -> None:
        with hold_gpus([lock], "me", on_wait=messages.append, gives_up=lambda: False):
            acquired.set()

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for(lambda: messages)
    assert not acquired.is_set()
    other.send_signal(signal.SIGKILL)
    thread.join(20)

    assert acquired.is_set()
    assert messages == ["GPU-1a2b is in use: waiting for root's process 7"]


def test_other_users_may_take_it_next(lock: Path) -> None:
    with hold_gpus([lock], "me", on_wait=print, gives_up=lambda: True):
        assert lock.stat().st_mode & 0o777 == 0o666
        assert lock.read_text() == "me"


def test_follows_no_link_of_another_user(lock: Path) -> None:
    lock.parent.mkdir()
    lock.symlink_to(lock.parent / "else")

    with (
        pytest.raises(OSError, match="symbolic links"),
        hold_gpus([lock], "me", on_wait=print, gives_up=lambda: True),
    ):
        pass


def test_folder_of_locks_can_be_chosen(tmp_path: Path) -> None:
    assert lock_folder({"CUWHEEL_RUNTIME": str(tmp_path)}) == tmp_path


@pytest.mark.parametrize(
    ("mode", "expected"), [(0o1777, "lock"), (0o755, "/tmp"), (0o777, "/tmp"), (None, "/tmp")]
)
def test_folder_is_the_same_for_all_users(
    mode: int | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where `/run/lock` is root's, as on RHEL, root uses the folder of other users."""
    shared = tmp_path / "lock"
    monkeypatch.setattr("cuwheel.base.system.gpu_lock._SHARED", shared)
    if mode is not None:
        shared.mkdir()
        shared.chmod(mode)

    folder = lock_folder({"XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path)})

    assert folder == tmp_path / expected
