"""Folders that commands write into: a user's files stay, byte by byte."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cuwheel.base.errors import CuwheelError, FileAccessError, UsageError
from cuwheel.base.paths import ROOT, is_script
from cuwheel.base.system.folders.output_folder import (
    MARKER,
    FolderKind,
    check_files,
    check_output,
    check_output_file,
    claim,
    make_empty,
    new_tree,
    write_files,
)

KIND = FolderKind(name="pages", what="a folder of pages")

# Modules that remove whole trees, and the folders that these are in.
_REMOVERS = {
    "build/pipeline/package_build/requirements.py": "the cache",
    "build/workspace/cache_contents.py": "entries of the cache, by their names",
    "build/toolchains/conda/install.py": "the cache",
    "build/toolchains/cuda_home.py": "a new folder of the cache",
    "build/toolchains/from_debian.py": "a new folder of the cache",
    "build/toolchains/redist/install.py": "a new folder of the cache",
    "base/fetch/git.py": "parts of writers that were killed",
    "publish/install/install.py": "temporary folders",
    "publish/install/transaction.py": "its folder of the environment, and bytecode of new files",
    "lab/matrix/slurm_executor.py": "a folder with the marker of intermediate files",
    "lab/perf/upstream_tests.py": "the folder of one measurement",
    "lab/nightly/record.py": "reports that have a marker or a record",
    "build/pipeline/checks.py": "the work folder",
    "build/pipeline/pipeline.py": "a folder of the work folder",
    "build/pipeline/run_state.py": "names of the work folder, which has a marker",
    "build/environments/installed.py": "the cache",
    "publish/stack/get.py": "the new folder of an environment",
    "publish/release/folder.py": "parts of writers that were killed",
    "build/sandbox/confinement.py": "a folder of the work folder",
    "build/sandbox/unix_server.py": "a socket; sockets/ in the work folder, and a folder of TMPDIR",
    "build/finish/smoke/probe.py": "a folder of the work folder",
    "build/inputs/pinned.py": "a folder of the work folder",
    "build/pipeline/package_build/build_commands.py": "the work folder",
    "build/pipeline/stages/environment.py": "the cache",
    "build/pipeline/stages/repair.py": "the work folder",
    "build/pipeline/stages/smoke.py": "the work folder",
    "build/pipeline/stages/source.py": "the work folder",
    "base/system/files.py": "folders of the callers",
    "base/system/folders/output_folder.py": "a folder with a marker",
    "base/system/folders/staged_files.py": "parts of writers that were killed",
    "base/system/folders/temporary.py": "temporary folders",
    "build/toolchains/from_pypi.py": "the cache",
    "build/toolchains/store.py": "the cache",
    "publish/rebuild/published.py": "a folder with the marker of intermediate files",
    "publish/rebuild/commits.py": "a folder with the marker of intermediate files",
    "bootstrap.py": "the cache",
}


def test_only_known_modules_remove_trees() -> None:
    call = re.compile(r"(?<!def )\b(?:remove_tree|rmtree|empty)\((?!self)")

    removing = {
        str(path.relative_to(ROOT / "cuwheel"))
        for path in (ROOT / "cuwheel").rglob("*.py")
        if call.search(path.read_text()) and not is_script(path)
    }

    assert removing - _REMOVERS.keys() == set()


def test_takes_absent_and_empty_folders(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    for name in ("empty", "a/b"):
        claim(tmp_path / name, KIND)
        claim(tmp_path / name, KIND)

    assert json.loads((tmp_path / "a/b" / MARKER).read_text())["kind"] == "pages"


@pytest.mark.parametrize("name", ["notes", "ü ñ", "a\nb", ".env", "simple"])
def test_names_other_files(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()

    with pytest.raises(UsageError) as caught:
        check_output(tmp_path, KIND)

    assert (name if name.isprintable() else ascii(name)) in caught.value.why
    assert os.listdir(tmp_path) == [name]  # noqa: PTH208 - names


_ELSEWHERE = ("../x", "/etc/passwd", "a/../../x", "x\0", ".git/HEAD")
_MARKERS = (
    *("", "{", "[]", '{"format": 9}', '{"format": 1, "kind": "pages"}'),
    '{"format": 1, "kind": "other", "files": {}}',
    *(json.dumps({"format": 1, "kind": "pages", "files": {name: []}}) for name in _ELSEWHERE),
)


@pytest.mark.parametrize("text", _MARKERS)
def test_refuses_invalid_marker(text: str, tmp_path: Path) -> None:
    (tmp_path / MARKER).write_text(text)

    with pytest.raises(UsageError):
        claim(tmp_path, KIND)


def test_refuses_top_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "link").symlink_to(tmp_path)

    for folder in (Path("/"), tmp_path, tmp_path / "link"):
        with pytest.raises(UsageError):
            check_output(folder, KIND)


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("nowhere"), os.mkfifo])
def test_refuses_other_files_than_folders(make: object, tmp_path: Path) -> None:
    assert callable(make)
    make(tmp_path / "x")

    with pytest.raises(FileAccessError):
        check_output(tmp_path / "x", KIND)


@pytest.mark.parametrize("folder", ["/proc/x", "/sys/x/y", "/dev/null/x"])
def test_refuses_read_only_folder(folder: str) -> None:
    with pytest.raises(FileAccessError):
        check_output(Path(folder), KIND)


def test_removes_named_entries_of_a_folder_with_marker_alone(tmp_path: Path) -> None:
    claim(tmp_path, KIND)
    for name in ("tree", "mine", ".tree.x.cuwheel-part"):
        (tmp_path / name).mkdir()

    make_empty(tmp_path, KIND, ["tree"])

    assert sorted(path.name for path in tmp_path.iterdir()) == [MARKER, "mine"]


def test_empties_no_folder_of_a_user(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()

    with pytest.raises(CuwheelError):
        make_empty(tmp_path, KIND)

    assert (tmp_path / "mine").exists()


OLD = {"a/b/one": b"1", "a/two": b"2", "top": b"3"}
NEW = {"a/two": b"22", "c/d": b"4", "top": b"3"}
# For each n a writer that ends, as by `kill -9`, at its n-th change of the disk.
_KILLED = """
import os, signal, sys
from pathlib import Path
from cuwheel.base.system.folders.output_folder import write_files
from tests.base.system.folders.test_output_folder import KIND, NEW, OLD

def end_at(changes):
    def hook(event, _):
        nonlocal changes
        if event in {"os.rename", "os.remove", "os.rmdir", "os.mkdir"}:
            changes -= 1
            if changes < 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)

for n in range(int(sys.argv[2])):
    folder = Path(sys.argv[1], str(n))
    write_files(folder, KIND, [OLD])
    (folder / "mine").write_bytes(b"mine")
    if not (child := os.fork()):
        end_at(n)
        write_files(folder, KIND, [NEW])
        os._exit(0)
    print(os.waitpid(child, 0)[1])
"""
_CHANGES = 24  # of the disk, and more


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and path.name != MARKER)
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def test_removes_its_own_files_alone(tmp_path: Path) -> None:
    write_files(tmp_path, KIND, [OLD])
    (tmp_path / "a/b/mine").write_bytes(b"mine")
    (tmp_path / "mine").mkdir()

    write_files(tmp_path, KIND, [NEW])

    assert contents(tmp_path) == {**NEW, "a/b/mine": b"mine"}
    assert (tmp_path / "mine").is_dir()


def test_touches_no_unchanged_file(tmp_path: Path) -> None:
    write_files(tmp_path, KIND, [OLD])
    before = [os.stat(tmp_path / name).st_ctime_ns for name in (MARKER, "top")]  # noqa: PTH116

    write_files(tmp_path, KIND, [OLD])

    after = [os.stat(tmp_path / name).st_ctime_ns for name in (MARKER, "top")]  # noqa: PTH116
    assert after == before


def test_keeps_others_where_these_are_not_all(tmp_path: Path) -> None:
    write_files(tmp_path, KIND, [OLD])

    write_files(tmp_path, KIND, [{"new": b""}], is_all=False)
    write_files(tmp_path, KIND, [{"top": b"33"}])

    assert contents(tmp_path) == {"top": b"33"}


@pytest.mark.parametrize("name", ["a/two", "a/b/one"])
def test_loses_no_edit(name: str, tmp_path: Path) -> None:
    write_files(tmp_path, KIND, [OLD])
    (tmp_path / name).write_bytes(b"edited")

    with pytest.raises(UsageError) as caught:
        write_files(tmp_path, KIND, [NEW])

    assert name in caught.value.what
    assert contents(tmp_path) == {**OLD, name: b"edited"}
    (tmp_path / name).unlink()  # the fix
    write_files(tmp_path, KIND, [NEW])
    assert contents(tmp_path) == NEW


def test_edit_is_found_before_the_work(tmp_path: Path) -> None:
    write_files(tmp_path, KIND, [OLD])
    check_files(tmp_path, KIND)
    (tmp_path / "top").write_bytes(b"edited")

    with pytest.raises(UsageError):
        check_files(tmp_path, KIND)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b"mine"),
        lambda path: path.mkdir(),
        lambda path: path.symlink_to("elsewhere"),
        os.mkfifo,
    ],
    ids=["file", "folder", "link", "fifo"],
)
def test_replaces_nothing_that_came_later(make: object, tmp_path: Path) -> None:
    assert callable(make)
    write_files(tmp_path, KIND, [{}])
    make(tmp_path / "top")

    with pytest.raises(UsageError):
        write_files(tmp_path, KIND, [OLD])

    assert sorted(path.name for path in tmp_path.iterdir()) == [MARKER, "top"]


def test_follows_no_link_out_of_the_folder(tmp_path: Path) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    write_files(site, KIND, [{"top": b""}])
    elsewhere.mkdir()
    (site / "a").symlink_to(elsewhere)

    with pytest.raises(UsageError):
        write_files(site, KIND, [OLD])

    assert list(elsewhere.iterdir()) == []


@pytest.mark.e2e
def test_next_run_repairs_a_kill_at_any_moment(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", _KILLED, str(tmp_path), str(_CHANGES)]

    finished = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True)
    for folder in tmp_path.iterdir():
        write_files(folder, KIND, [NEW])

    ends = [int(status) for status in finished.stdout.split()]
    assert ends[0] == signal.SIGKILL
    assert ends[-1] == 0
    assert [contents(folder) for folder in tmp_path.iterdir()] == [
        {**NEW, "mine": b"mine"}
    ] * _CHANGES


def test_replaces_its_own_tree_alone(tmp_path: Path) -> None:
    for text in ("1", "2"):
        with new_tree(tmp_path, KIND, "project") as aside:
            (aside / "file").write_text(text)
    (tmp_path / "project" / "mine").touch()

    with pytest.raises(UsageError), new_tree(tmp_path, KIND, "project"):
        pass

    assert sorted(path.name for path in (tmp_path / "project").iterdir()) == ["file", "mine"]


def test_removes_folders_that_it_leaves_empty(tmp_path: Path) -> None:
    write_files(tmp_path, KIND, [OLD])

    write_files(tmp_path, KIND, [{}])

    assert [path.name for path in tmp_path.iterdir()] == [MARKER]


def test_takes_pages_checkout(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name in ("CNAME", ".nojekyll", ".lock"):
        (tmp_path / name).touch()

    claim(tmp_path, KIND)

    assert {".git", "CNAME", ".nojekyll", MARKER} < {path.name for path in tmp_path.iterdir()}


def test_lock_with_content_is_a_users_file(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("mine")

    with pytest.raises(UsageError):
        claim(tmp_path, KIND)


@pytest.mark.parametrize("name", ["x-1.0-py3-none-any.whl", "folder", "-", "null", "link"])
def test_replaces_no_wheel_device_or_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "x-1.0-py3-none-any.whl").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "link").symlink_to("x-1.0-py3-none-any.whl")

    with pytest.raises(UsageError):
        check_output_file(tmp_path / name, "--page")


def test_writes_through_a_link_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("report.json")

    assert check_output_file(tmp_path / "link", "--json") == tmp_path.resolve() / "report.json"
