from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from cuwheel.base.errors import DiskFullError, FileAccessError
from cuwheel.base.paths import ROOT
from cuwheel.base.system import files
from tests.support.machines.ordinary_user import as_ordinary_user, let_in, ordinary_user
from tests.support.requirements import require
from tests.support.toolchains.foreign_locks import foreign_flock

_HOLD = """
import sys
from pathlib import Path
from cuwheel.base.system.files import file_lock
with file_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""

_LOCK = """
import sys
from pathlib import Path
from cuwheel.base.errors import FileAccessError
from cuwheel.base.system.files import file_lock
try:
    with file_lock(Path(sys.argv[1])):
        print("held")
except FileAccessError as error:
    print(error)
"""

# Waits, or dies, when the file is written and not yet renamed.
_WRITE = """
import os, signal, sys
from pathlib import Path
from cuwheel.base.system import files
def end(*_):
    if sys.argv[2] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    print("held", flush=True)
    sys.stdin.readline()
    os.replace(*_)
Path.replace = end
files.write_atomically(Path(sys.argv[1]), "half")
"""

_FILL = """
import sys
from pathlib import Path
from cuwheel.base.errors import DiskFullError
from cuwheel.base.system.files import naming_full_disk, new_folder, write_atomically
disk = Path(sys.argv[1])
try:
    with naming_full_disk(disk), new_folder(disk / "made") as aside:
        write_atomically(aside / "large", bytes(1 << 20))
except DiskFullError as error:
    print(error.what)
print(sorted(path.name for path in disk.rglob("*")))
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "file").write_text("content")
    (folder / "link").symlink_to("sub/file")
    return folder


def stop_by_line(holder: subprocess.Popen[str]) -> None:
    assert holder.stdin
    holder.stdin.write("\n")
    holder.stdin.flush()


def stop_by_kill(holder: subprocess.Popen[str]) -> None:
    holder.kill()


def start_holder(path: Path, code: str = _HOLD) -> subprocess.Popen[str]:
    """Start a process that holds the lock, or writes the file, until it gets a line."""
    holder = subprocess.Popen(
        [sys.executable, "-c", code, path, "waits"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert holder.stdout
    assert holder.stdout.readline() == "held\n"
    return holder


def test_hashes_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")

    # The example of FIPS 180-2, appendix B.1.
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert files.sha256_of_file(path) == expected


def change_link(tree: Path) -> None:
    (tree / "link").unlink()
    (tree / "link").symlink_to("sub")


_CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda tree: (tree / "sub" / "file").write_text("CONTENT"),
    "name": lambda tree: (tree / "sub" / "file").rename(tree / "sub" / "other"),
    "mode": lambda tree: (tree / "sub" / "file").chmod(0o755),
    "link": change_link,
    "new file": lambda tree: (tree / "sub" / "empty").touch(),
}


@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
def test_tree_hash_sees_change(tree: Path, change: Callable[[Path], object]) -> None:
    before = files.sha256_of_tree(tree)

    change(tree)

    assert files.sha256_of_tree(tree) != before


def test_lists_links_to_folders_without_following(tree: Path) -> None:
    (tree / "up").symlink_to("..")

    assert files.list_tree(tree) == [Path("link"), Path("sub/file"), Path("up")]


def test_writes_with_readable_mode(tmp_path: Path) -> None:
    files.write_atomically(tmp_path / "new" / "file", "text")

    assert (tmp_path / "new" / "file").stat().st_mode & 0o777 == 0o644


def test_keeps_old_content_when_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "broken disk")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="broken disk"):
        files.write_atomically(path, "new")

    assert [entry.read_text() for entry in tmp_path.iterdir()] == ["old"]


def kill_writer(path: Path) -> Path:
    """Kill a process before it renames its file, and return its part."""
    finished = subprocess.run([sys.executable, "-c", _WRITE, path, "dies"], cwd=ROOT, check=False)
    assert finished.returncode == -signal.SIGKILL
    [part] = path.parent.glob(".*")
    return part


def test_next_writer_removes_part_of_killed_one(tmp_path: Path) -> None:
    path = tmp_path / "a file [1]"
    part = kill_writer(path)

    files.write_atomically(path, "whole")

    assert not part.exists()
    assert {entry.name: entry.read_text() for entry in tmp_path.iterdir()} == {path.name: "whole"}


def test_removes_parts_of_every_file(tmp_path: Path) -> None:
    kill_writer(tmp_path / "some")
    others = (tmp_path / ".other.part", tmp_path / "plain.cuwheel-part")
    for path in others:
        path.touch()

    files.remove_parts(tmp_path)

    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_leaves_part_of_running_writer(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with start_holder(path, _WRITE) as writer:
        [part] = tmp_path.iterdir()

        files.remove_parts(tmp_path)
        files.write_atomically(path, "ours")

        assert (part.read_text(), path.read_text()) == ("half", "ours")
        stop_by_line(writer)
        assert writer.wait() == 0

    assert {entry.name: entry.read_text() for entry in tmp_path.iterdir()} == {"file": "half"}


def test_writes_again_where_its_part_was_removed_as_a_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may find a part before its writer has locked it."""
    parts = []

    def lock_late(stream: IO[bytes], flags: int) -> None:
        if flags == fcntl.LOCK_EX:
            parts.append(stream.name)
        if len(parts) == 1 and flags == fcntl.LOCK_EX:
            files.remove_parts(tmp_path)
        flock(stream, flags)

    flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lock_late)
    files.write_atomically(tmp_path / "file", "whole")

    assert len(set(parts)) == 2
    assert {entry.name: entry.read_text() for entry in tmp_path.iterdir()} == {"file": "whole"}


def test_writes_where_nothing_can_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    part = kill_writer(tmp_path / "file")
    monkeypatch.setattr(fcntl, "flock", refuse)
    files.write_atomically(tmp_path / "file", "whole")

    assert (tmp_path / "file").read_text() == "whole"
    assert part.exists(), "without locks it may still be in use"


def test_new_folder_keeps_old_one_on_error(tree: Path) -> None:
    with contextlib.suppress(ValueError), files.new_folder(tree):
        raise ValueError

    assert (tree / "sub" / "file").is_file()


_FILES = """
import sys
from pathlib import Path
from cuwheel.base.errors import DiskFullError
from cuwheel.base.system.files import naming_full_disk, write_atomically
try:
    with naming_full_disk(Path(sys.argv[1])):
        for number in range(100):
            write_atomically(Path(sys.argv[1], str(number)), "")
except DiskFullError as error:
    print(error.why)
"""


def test_reports_used_up_inodes(tmp_path: Path) -> None:
    require("namespaces", "the message where no inode is left")
    script = 'mount -t tmpfs -o size=64m,nr_inodes=20 none "$0" && exec "$@"'
    spaces = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    finished = subprocess.run(
        [*spaces, tmp_path, sys.executable, "-c", _FILES, tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert finished.stdout.startswith("it has no free inodes, although 64.0 MiB are free")


_WATCHER = """
import pathlib, sys
missed = 0
print("watching", flush=True)
while not pathlib.Path(sys.argv[1], "stop").exists():
    missed += not pathlib.Path(sys.argv[1], "made", "file").exists()
print(missed)
"""


def test_new_folder_is_there_at_each_moment(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-c", _WATCHER, str(tmp_path)]
    with files.new_folder(tmp_path / "made") as aside:
        (aside / "file").touch()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout
        watcher.stdout.readline()
        for _ in range(200):
            with files.new_folder(tmp_path / "made") as aside:
                (aside / "file").touch()
        (tmp_path / "stop").touch()
        missed = watcher.stdout.read()

    assert missed == "0\n"
    assert {path.name for path in tmp_path.iterdir()} == {"made", "stop"}


def test_removes_leftovers_of_killed_process(tmp_path: Path) -> None:
    (tmp_path / ".final.abc.cuwheel-part" / "half").mkdir(parents=True)
    (tmp_path / ".final.backup").mkdir()
    (tmp_path / "final").mkdir()

    files.remove_leftovers(tmp_path / "final")

    assert sorted(path.name for path in tmp_path.iterdir()) == [".final.backup", "final"]


def test_refuses_to_empty_a_file_for_a_lock(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text("pins")

    with pytest.raises(FileAccessError), files.file_lock(tmp_path / "uv.lock"):
        pass

    assert (tmp_path / "uv.lock").read_text() == "pins"


@pytest.mark.parametrize("mode", [0o000, 0o500], ids=oct)
def test_ordinary_user_removes_tree_and_follows_no_link(tmp_path: Path, mode: int) -> None:
    """Root needs no mode changed. A link to a folder elsewhere once had that folder's changed."""
    elsewhere, tree = tmp_path / "elsewhere", tmp_path / "of a build" / "tree"
    (tree / "closed" / "deep").mkdir(parents=True)
    (tree / "closed" / "deep" / "file").touch()
    elsewhere.mkdir(mode=0o750)
    (tree / "closed" / "link").symlink_to(elsewhere)
    os.mkfifo(tree / "fifo")
    for path in (tree.parent, tree, *tree.rglob("*"), elsewhere):
        os.chown(path, ordinary_user(), -1, follow_symlinks=False)
    (tree / "closed").chmod(mode)
    let_in(tmp_path)

    assert as_ordinary_user(lambda: files.remove_tree(tree)) == ""

    assert not tree.exists()
    assert elsewhere.stat().st_mode & 0o777 == 0o750


def test_removes_link_and_not_its_target(tree: Path) -> None:
    link = tree.with_name("link")
    link.symlink_to(tree)

    files.remove_tree(link)

    assert (tree / "sub" / "file").is_file()


@pytest.mark.parametrize("stop", [stop_by_line, stop_by_kill])
def test_lock_waits_for_other_process(
    tmp_path: Path, stop: Callable[[subprocess.Popen[str]], None]
) -> None:
    path = tmp_path / "folder" / "lock"
    waited = []

    with start_holder(path) as holder:

        def let_go() -> None:
            waited.append(True)
            stop(holder)

        with files.file_lock(path, on_wait=let_go):
            pass

    assert waited == [True]


_REMOVED = """
import sys
from pathlib import Path
from cuwheel.base.errors import DiskFullError
from cuwheel.base.system.files import naming_full_disk
cache, small = Path(sys.argv[1]), Path(sys.argv[2])
try:
    with naming_full_disk(cache):
        file = small / "file"
        try:
            with file.open("wb") as stream:
                for _ in range(200):
                    stream.write(bytes(1 << 20))
        finally:
            file.unlink()
except DiskFullError as error:
    print(error.what, error.why, sep="\\n")
"""


def test_disk_that_has_space_again_is_not_called_full(tmp_path: Path) -> None:
    """The failed writer has removed what filled it: two disks are left to choose from."""
    require("namespaces", "which of two disks ran full")
    small = tmp_path / "small"
    small.mkdir()
    script = 'mount -t tmpfs -o size=100m none "$0" && exec "$@"'
    spaces = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(small)]

    finished = subprocess.run(
        [*spaces, sys.executable, "-c", _REMOVED, tmp_path, small],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(small)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert finished.stdout.startswith(f"the disk of {tmp_path} or {small} ran full\n")
    assert f"{small}, 100.0 MiB in all" in finished.stdout
    assert "no space left" not in finished.stdout


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_names_full_disk(tmp_path: Path, code: int) -> None:
    with pytest.raises(DiskFullError) as caught, files.naming_full_disk(tmp_path / "later"):
        raise OSError(code, "full")

    assert str(tmp_path / "later") in caught.value.what
    assert "CUWHEEL_CACHE" in caught.value.fix


def test_names_the_disk_that_a_copy_is_written_to(tmp_path: Path) -> None:
    """The system's error names its source first."""
    source, target = Path("/dev/shm/source"), tmp_path / "target"

    with pytest.raises(DiskFullError) as caught, files.naming_full_disk(tmp_path):
        raise OSError(errno.ENOSPC, "full", str(source), None, str(target))

    assert str(tmp_path) in caught.value.what
    assert "/dev/shm" not in caught.value.what


def test_names_full_disk_of_one_copy_among_many(tmp_path: Path) -> None:
    text = f"[Errno {errno.ENOSPC}] {os.strerror(errno.ENOSPC)}: 'b'"

    with pytest.raises(DiskFullError), files.naming_full_disk(tmp_path):
        raise shutil.Error([("a", "b", "[Errno 13] Permission denied"), ("a", "b", text)])


def test_leaves_nothing_on_full_disk(tmp_path: Path) -> None:
    require("namespaces", "that a write to a full disk leaves nothing")
    script = 'mount -t tmpfs -o size=64k none "$1" && exec "$2" -c "$3" "$1"'
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]

    finished = subprocess.run(
        [*unshare, tmp_path, sys.executable, _FILL],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert finished.stdout.splitlines() == [f"no space left on the disk of {tmp_path}", "[]"]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("cc1plus: fatal error: closing /tmp/x.s: No space left on device", True),
        ("failed to write: (os error 28)", True),
        ("ld: out/lib.so: Disk quota exceeded", True),
        ("error: no such file", False),
    ],
)
def test_recognizes_full_disk(line: str, answer: bool) -> None:  # noqa: FBT001 - an expected value
    assert files.has_disk_full_message([line]) is answer


def test_names_the_fullest_disk_for_a_write_that_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("cuwheel.base.system.files.free_disk", lambda folder: folder != tmp_path)

    assert files.fullest_disk(tmp_path / "cache") == tmp_path


def test_refuses_write_beyond_free_space(tmp_path: Path) -> None:
    with pytest.raises(DiskFullError) as caught:
        files.check_free_disk(tmp_path / "not" / "there", 1 << 60)

    assert f"{float(1 << 30)} GiB are needed" in caught.value.why


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_refuses_disk_that_locks_nothing(tmp_path: Path, code: int) -> None:
    refused = subprocess.run(
        [sys.executable, "-c", _LOCK, tmp_path / "lock"],
        cwd=ROOT,
        env={**os.environ, **foreign_flock(tmp_path, code)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert refused.stdout.startswith(f"error: {tmp_path}/lock can't be locked\n")
    assert os.strerror(code) in refused.stdout


def test_lock_where_no_file_can_be_made_is_an_error() -> None:
    """filelock takes that for a lock that was just removed, and waits for ever."""
    with pytest.raises(FileNotFoundError), files.file_lock(Path("/proc/self/.lock")):
        pass


def test_gives_up_waiting_for_lock(tmp_path: Path) -> None:
    with start_holder(tmp_path / "lock") as holder:
        try:
            with (
                pytest.raises(TimeoutError),
                files.file_lock(tmp_path / "lock", gives_up=lambda: True),
            ):
                pass
        finally:
            stop_by_line(holder)


def test_hashes_no_file_that_is_larger_than_any(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as stream:
        stream.truncate(1 << 42)

    with pytest.raises(OSError, match="it has more than"):
        files.sha256_of_file(tmp_path / "x")
