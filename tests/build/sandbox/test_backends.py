"""The sandboxes: bubblewrap's and our own, held to the same."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cuwheel.base.errors import ResourceLimitError, SandboxError
from cuwheel.base.paths import ROOT, script
from cuwheel.base.system.process import Finished, run
from cuwheel.build.sandbox import backends
from cuwheel.build.sandbox.backends import (
    KINDS,
    choose_sandbox,
    refusals,
    sandboxed,
    working_kinds,
)
from cuwheel.build.sandbox.mounts import Mount, closed_to_others
from tests.support.machines.pythons import python_in_usr
from tests.support.requirements import require

_PATH = {"PATH": "/usr/bin:/bin"}
PARTS = {"bubblewrap": "bwrap", "unshare": "sandbox"}  # what a machine needs for each kind
_CONNECT = """
import socket, sys
socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5).close()
"""
_OWN_SERVER = """
import socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname(), timeout=5).close()
"""
# Starts something in a sandbox and reports it, as a build does.
_STARTER = """
import sys
from pathlib import Path
from cuwheel.base.system.process import run
from cuwheel.build.sandbox.backends import sandboxed
prefix = sandboxed(sys.argv[1], (), Path("/usr"))
script = "trap '' INT TERM; sleep 301 & echo; wait; sleep 302"
run([*prefix, "sh", "-c", script], env={"PATH": "/usr/bin:/bin"},
    on_line=lambda *_: print("running", flush=True))
"""
# Prints the process's rights by the kernel; then the result of a call: syscall(2).
_RIGHTS = """
import re
status = open("/proc/self/status").read()
print(*re.findall(r"^(?:CapEff|CapPrm|CapInh|CapAmb|NoNewPrivs|Seccomp):\\s*(\\w+)", status, re.M))
"""
_CALL_KERNEL = """
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
words = [word.encode() if word[:1] == "/" else int(word, 0) for word in sys.argv[2:]]
done = getattr(libc, sys.argv[1])(*words)
print("done" if done >= 0 else errno.errorcode[ctypes.get_errno()])
"""
_NEW_USER_NAMESPACE = "0x10000000"  # <linux/sched.h>, CLONE_NEWUSER
_ATTACH = "16"  # <linux/ptrace.h>, PTRACE_ATTACH
_REMOUNT = ("mount", "0", "/usr", "0", "0x1020", "0")  # <linux/mount.h>: MS_REMOUNT, MS_BIND
_CHOOSE = """
import sys
from cuwheel.base.errors import SandboxError
from cuwheel.build.sandbox.backends import choose_sandbox
for kind, contained in (("auto", False), ("unshare", False), ("auto", True), ("none", False)):
    try:
        print("chosen", choose_sandbox(kind, is_contained=contained))
    except SandboxError as error:
        print("why", error.why)
"""
# To be run as root of a user namespace, which may take these away from itself.
_NO_NAMESPACES = (
    "for k in user mnt; do echo 0 > /proc/sys/user/max_${k}_namespaces || exit 77; done"
)
# As containers have it; who comes into a namespace below can't uncover it: mount_namespaces(7).
_MASKED_PROC = "mount -t tmpfs none /proc/acpi || mount -t tmpfs none /proc/sys || exit 77"
_BELOW = "unshare --user --map-root-user --mount"
_NO_BUBBLEWRAP = "! test -e /usr/bin/bwrap || mount --bind /bin/false /usr/bin/bwrap || exit 77"


@pytest.fixture(params=["bubblewrap", "unshare"])
def kind(request: pytest.FixtureRequest) -> str:
    require(PARTS[request.param], "that this sandbox keeps what the engine promises of it")
    return choose_sandbox(request.param)


@pytest.fixture
def listener() -> Iterator[int]:
    """The port of a server of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def inside(kind: str, *words: str, places: tuple[Mount, ...] = (), at: str = "/usr") -> Finished:
    return run([*sandboxed(kind, places, Path(at)), *words], env=_PATH, check=False)


def shell(kind: str, script: str, *places: Mount) -> str:
    """Return the output of a script that succeeds in a sandbox."""
    done = inside(kind, "sh", "-c", script, places=places)
    assert done.status == 0, done.output
    return done.output


def test_has_no_network_but_a_loopback(kind: str, listener: int) -> None:
    done = inside(kind, _python(), "-c", _CONNECT, str(listener))

    assert "Connection refused" in done.output
    assert done.status == 1
    assert inside(kind, _python(), "-c", _OWN_SERVER).status == 0


def test_holds_folders_under_their_names(kind: str, tmp_path: Path) -> None:
    real = tmp_path / "a folder, with a name"
    (real / "deep").mkdir(parents=True)
    (real / "file").write_text("text\n")
    places = (
        Mount(source=real / "file", target=Path("/cuwheel/source/deep/one"), kind="read"),
        Mount(source=real, target=Path("/cuwheel/source"), kind="write"),
        Mount(source=Path("source/file"), target=Path("/cuwheel/link"), kind="link"),
    )

    script = "cat deep/one ../link; pwd; touch made"
    done = inside(kind, "sh", "-c", script, places=places, at="/cuwheel/source")

    assert done.output == "text\ntext\n/cuwheel/source\n"
    assert (real / "made").exists()


def test_writes_only_where_it_may(kind: str, tmp_path: Path) -> None:
    place = Mount(source=tmp_path, target=Path("/cuwheel/read"))

    for path in ("/usr", "/etc", "/cuwheel/read", "/usr/lib"):
        done = inside(kind, "touch", f"{path}/cuwheel-test", places=(place,))
        assert "Read-only file system" in done.output, path

    assert list(tmp_path.iterdir()) == []


def test_disk_below_a_folder_is_read_only_too(kind: str, tmp_path: Path) -> None:
    """A mount of its own keeps its flags when the folder above is bound: mount(2)."""
    code = (
        "import sys; from pathlib import Path; from cuwheel.base.system.process import run; "
        "from cuwheel.build.sandbox.backends import sandboxed; "
        "from cuwheel.build.sandbox.mounts import Mount; "
        "place = Mount(source=Path(sys.argv[2]), target=Path('/cuwheel/read')); "
        "prefix = sandboxed(sys.argv[1], (place,), Path('/usr')); "
        "print(run([*prefix, 'touch', '/cuwheel/read/a disk/x'], "
        "env={'PATH': '/usr/bin:/bin'}, check=False).output)"
    )
    (tmp_path / "a disk").mkdir()
    script = 'mount -t tmpfs none "$1/a disk" || exit 77; cd "$2" && exec "$3" -c "$4" "$5" "$1"'

    output = in_namespace(script, "sh", tmp_path, ROOT, sys.executable, code, kind)

    assert "Read-only file system" in output


def test_holds_nothing_of_people(kind: str, tmp_path: Path) -> None:
    (tmp_path / "secret").touch()

    output = shell(kind, f"ls -d /home /root /var /run /mnt /srv {tmp_path} 2>/dev/null; ls /")

    assert output.split() == sorted({"bin", "dev", "etc", "proc", "usr", *output.split()})
    assert not {"home", "root", "var", "run", "mnt", "srv", "tmp"} & set(output.split())


def test_holds_no_right(kind: str) -> None:
    """Root neither: CI is often root."""
    output = inside(kind, _python(), "-c", _RIGHTS).output

    assert [int(word, 16) for word in output.split()] == [0, 0, 0, 0, 1, 2]


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (_REMOUNT, "EPERM"),
        (("unshare", _NEW_USER_NAMESPACE), "EPERM"),
        (("socket", str(int(socket.AF_VSOCK)), "1", "0"), "EAFNOSUPPORT"),
        (("ptrace", _ATTACH, str(os.getpid()), "0", "0"), "ESRCH"),
        (("getppid",), "done"),
    ],
    ids=("remount", "unshare", "vsock", "ptrace", "others"),
)
def test_kernel_refuses_what_namespaces_leave_open(
    kind: str, call: tuple[str, ...], answer: str
) -> None:
    assert inside(kind, _python(), "-c", _CALL_KERNEL, *call).output == f"{answer}\n"


def test_has_devices_of_its_own(kind: str) -> None:
    """No disk, no memory, no terminal, no shared memory of the machine."""
    names = {"core", "console", "fd", "full", "null", "ptmx", "pts", "random", "shm"}
    names |= {"stderr", "stdin", "stdout", "tty", "urandom", "zero"}

    output = shell(kind, "ls /dev; ls -A /dev/shm; : > /dev/shm/x; echo x > /dev/null")

    assert set(output.split()) <= names


def test_shows_root_nothing_that_others_may_not_read(kind: str) -> None:
    """As root the system's passwords and keys could be read in any namespace."""
    assert not Path("/etc/shadow").stat().st_mode & 4

    assert shell(kind, "cat /etc/shadow 2>/dev/null || :") == ""


def test_takes_what_is_closed_to_others_as_it_is_now(tmp_path: Path) -> None:
    """Programs that change passwords make a lock next to them and remove it."""
    for name in ("a", "b", "folder"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "closed").touch(mode=0o600)
    (tmp_path / "folder").chmod(0o700)
    (tmp_path / "link").symlink_to("lost")

    closed = closed_to_others(str(tmp_path))
    first = next(closed)
    remaining = {path for path in tmp_path.glob("[abf]*") if not first.is_relative_to(path)}
    for path in remaining:
        shutil.rmtree(path)

    assert list(closed) == []
    assert list(closed_to_others(str(tmp_path))) == [first]
    assert list(closed_to_others(str(tmp_path / "lost"))) == []


def test_sees_only_its_own_processes(kind: str) -> None:
    assert len(shell(kind, "ls -d /proc/[0-9]*").split()) <= 4


def test_has_one_name_on_every_machine_and_finds_it(kind: str) -> None:
    looks_up = "import socket; print(socket.gethostbyname(socket.gethostname()))"

    assert shell(kind, "uname -n") == "cuwheel\n"
    assert inside(kind, _python(), "-c", looks_up).output == "127.0.0.1\n"
    assert shell(kind, "cat /etc/hosts").splitlines()[0] == "127.0.0.1 localhost cuwheel"


@pytest.mark.parametrize(("script", "status"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_keeps_user_and_status(kind: str, script: str, status: int) -> None:
    done = inside(kind, "sh", "-c", f"id -u; {script}")

    assert (done.output, done.status) == (f"{os.getuid()}\n", status)


def test_program_has_signals_as_they_were(kind: str) -> None:
    """Python ignores SIGPIPE; what it starts must not."""
    output = shell(kind, "grep SigIgn /proc/self/status")

    assert int(output.split()[1], 16) & 1 << (signal.SIGPIPE - 1) == 0


def test_ends_what_the_program_leaves_behind(kind: str) -> None:
    mark = f"300.{os.getpid()}"

    shell(kind, f"sleep {mark} > /dev/null 2>&1 &")

    assert processes_with(mark) == []


def test_names_program_that_is_missing(kind: str) -> None:
    done = inside(kind, "/nowhere/ninja")

    assert done.status in {1, 127}
    assert "/nowhere/ninja: No such file or directory" in done.output


def test_refuses_folder_that_is_lost(kind: str, tmp_path: Path) -> None:
    places = [Mount(source=tmp_path / name, target=Path("/cuwheel") / name) for name in "ab"]

    with pytest.raises(SandboxError) as caught:
        sandboxed(kind, places, Path("/usr"))

    assert caught.value.what == "the sandbox can't mount /cuwheel/a, /cuwheel/b"
    assert caught.value.why == f"missing: {tmp_path / 'a'}, {tmp_path / 'b'}"


def test_works_from_a_folder_that_was_removed(kind: str, tmp_path: Path) -> None:
    lost = tmp_path / "lost"
    lost.mkdir()
    prefix = sandboxed(kind, (), Path("/usr"))
    script = f'rmdir {lost}; exec "$@"'

    done = run(["sh", "-c", script, "sh", *prefix, "pwd"], env=_PATH, cwd=lost, check=False)

    assert (done.status, done.output) == (0, "/usr\n")


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ends_with_its_starter(kind: str, number: int) -> None:
    command = [sys.executable, "-c", _STARTER, kind]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as starter:
        assert starter.stdout
        assert starter.stdout.readline() == "running\n"
        family = psutil.Process(starter.pid).children(recursive=True)
        starter.send_signal(number)
        starter.wait(timeout=30)

    assert len(family) >= 3
    assert psutil.wait_procs(family, timeout=10)[1] == []


def test_works_for_an_ordinary_user(kind: str, tmp_path: Path) -> None:
    """As root there is no user namespace in it; an ordinary user needs one."""
    shown = tmp_path / "shown"
    shown.mkdir(mode=0o755)
    (shown / "file").write_text("text\n")
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 1:
            folder.chmod(folder.stat().st_mode | 1)  # pytest's own are closed to others
    names = script("build/sandbox/namespaces")
    shutil.copytree(names, tmp_path / "namespaces")
    place = Mount(source=shown, target=Path("/cuwheel/shown"))
    words = [
        word.replace(str(names), str(tmp_path / "namespaces")).replace(sys.executable, _python())
        for word in sandboxed(kind, (place,), Path("/cuwheel/shown"))
    ]
    user = os.getuid() or 65534
    becoming = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
    ordinary = () if os.getuid() else becoming

    shell_script = "id -u; cat file; grep -h -E 'CapPrm|Seccomp:' /proc/self/status"
    done = run([*ordinary, *words, "sh", "-c", shell_script], env=_PATH, check=False)

    rights = "CapPrm:\t0000000000000000\nSeccomp:\t2\n"
    assert (done.status, done.output) == (0, f"{user}\ntext\n{rights}")


def test_takes_the_first_kind_that_works() -> None:
    require("sandbox", "which kind of sandbox is preferred")

    assert choose_sandbox() == working_kinds()[0]
    assert {*working_kinds(), *refusals()} == {"bubblewrap", "unshare"}


def test_limit_of_processes_is_no_reason_to_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"bwrap: Can't fork for pid 1: {os.strerror(errno.EAGAIN)}"
    monkeypatch.setattr(backends, "_refusal", lambda _: line)

    with pytest.raises(ResourceLimitError) as caught:
        choose_sandbox()

    assert "ulimit -u" in caught.value.fix


def test_none_is_no_prefix(tmp_path: Path) -> None:
    place = Mount(source=tmp_path / "lost", target=Path("/cuwheel"))

    assert sandboxed(choose_sandbox("none"), (place,), Path("/usr")) == ()


@pytest.mark.parametrize(
    ("setting", "within", "why"),
    [
        (_NO_NAMESPACES, "", "a limit is reached, of /proc/sys/user/max_*_namespaces"),
        (_MASKED_PROC, _BELOW, "Operation not permitted"),
    ],
)
def test_refuses_to_do_without_where_all_is_refused(setting: str, within: str, why: str) -> None:
    """But for the caller's own container, and where the caller chooses none."""
    script = f'{_NO_BUBBLEWRAP}; {setting}; cd "$1" && exec {within} "$2" -c "$3"'

    output = in_namespace(script, *_choose())

    auto, unshare, *others = output.splitlines()[-4:]
    assert auto.startswith("why bubblewrap: ")
    assert unshare.startswith("why no sandbox available: ")
    assert why in auto
    assert why in unshare
    assert others == ["chosen none", "chosen none"]


def test_takes_own_calls_where_bubblewrap_fails() -> None:
    output = in_namespace(f'{_NO_BUBBLEWRAP}; cd "$1" && exec "$2" -c "$3"', *_choose())

    assert "chosen unshare\n" in output


def _python() -> str:
    """A Python that is in a sandbox without any folder of people, and that everybody may run."""
    return str(python_in_usr("what a program in a sandbox reaches").path)


def _choose() -> tuple[str, Path, str, str]:
    return ("sh", ROOT, sys.executable, _CHOOSE)


def in_namespace(script: str, *words: str | Path) -> str:
    """Run a script as root of a user namespace."""
    require("namespaces", "what is done where this machine's sandboxes are refused")
    unshare = ("unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork")
    own_proc = "mount -t proc proc /proc || exit 77; "
    done = run([*unshare, "sh", "-c", own_proc + script, *words], env=_PATH, check=False)
    assert done.status == 0, done.output
    return done.output


def processes_with(word: str, seconds: float = 5.0) -> list[int]:
    """Those with this argument that still run after the time is up."""
    deadline = time.monotonic() + seconds
    while True:
        closed = [
            one.pid
            for one in psutil.process_iter(["cmdline"])
            if word in (one.info["cmdline"] or ())
        ]
        if not closed or time.monotonic() > deadline:
            return closed
        time.sleep(0.05)


@pytest.mark.parametrize("kind", KINDS[:2])
def test_starts_with_any_path_of_the_program(kind: str) -> None:
    """A build's own PATH names folders of the sandbox; what starts it isn't among them."""
    require(PARTS[kind], "that a sandbox starts under a build's own PATH")

    done = run(
        [*sandboxed(kind, (), Path("/usr")), "/bin/sh", "-c", "echo $PATH"],
        env={"PATH": "/cuwheel/toolbox"},
    )

    assert done.output == "/cuwheel/toolbox\n"
