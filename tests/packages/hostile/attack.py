"""What a hostile package tries, as its build, its hooks or its import: each says how it went.

The test writes `FACTS` into a copy: more of the machine than a stranger would know. Standard
library only, no part of cuwheel.
"""

import ctypes
import glob
import json
import os
import socket
import sys

FACTS = {}
_LIBC = ctypes.CDLL(None, use_errno=True)
_DISKS = ("/dev/mem", "/dev/kmsg", "/dev/loop0", "/dev/loop-control", "/dev/[hsv]d[a-z]", "/dev/nvme*")
_KEYCTL = {"x86_64": 250, "aarch64": 219}  # <asm/unistd.h>


def _call(name, *words):
    if getattr(_LIBC, name)(*words) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _connect(family, address):
    with socket.socket(family) as talk:
        talk.settimeout(5)
        talk.connect(address)


def read_a_secret_file():
    open(FACTS["secret"]).read()


def list_the_home_folder():
    os.listdir(FACTS["home"])


def read_files_of_root():
    if not open("/etc/shadow").read():
        raise PermissionError("it is empty")


def read_other_environments():
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            if FACTS["word"].encode() in open(path, "rb").read():
                return
        except OSError:
            pass
    raise LookupError("no process has it")


def trace_another_process():
    _call("ptrace", 16, FACTS["pid"], None, None)
    os.waitpid(FACTS["pid"], 0)
    _call("ptrace", 17, FACTS["pid"], None, None)


def signal_another_process():
    os.kill(FACTS["pid"], 0)


def connect_by_ipv4():
    _connect(socket.AF_INET, ("127.0.0.1", FACTS["ipv4"]))


def connect_by_ipv6():
    _connect(socket.AF_INET6, ("::1", FACTS["ipv6"]))


def connect_to_an_abstract_socket():
    _connect(socket.AF_UNIX, "\0" + FACTS["abstract"])


def connect_to_a_socket_file():
    _connect(socket.AF_UNIX, FACTS["socket"])


def make_a_vsock():
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()


def write_to_the_host():
    open(os.path.join(FACTS["host"], f"written-{os.getpid()}"), "w").close()


def write_to_its_environment():
    path = os.path.join(sys.prefix, "written")
    open(path, "w").close()
    os.unlink(path)


def remount_the_system():
    _call("mount", None, b"/usr", None, ctypes.c_ulong(0x1020), None)


def make_a_user_namespace():
    child = os.fork()
    if not child:
        os._exit(int(_LIBC.unshare(0x10000000) < 0))
    if os.waitpid(child, 0)[1]:
        raise PermissionError("refused")


def open_a_disk_or_the_kernels_log():
    for path in [path for pattern in _DISKS for path in glob.glob(pattern)]:
        try:
            os.close(os.open(path, os.O_RDONLY))
            return
        except OSError:
            pass
    raise PermissionError("none of them")


def read_the_users_keys():
    if _LIBC.syscall(_KEYCTL[os.uname().machine], 0, -4, 1) < 0:
        raise PermissionError("refused")


def change_the_kernels_settings():
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"):
        try:
            os.close(os.open(path, os.O_WRONLY))
            return
        except OSError:
            pass
    raise PermissionError("refused")


def leave_a_daemon():
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        for number in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        os.execvp("sleep", ["sleep", FACTS["mark"]])


ATTACKS = (
    read_a_secret_file,
    list_the_home_folder,
    read_files_of_root,
    read_other_environments,
    trace_another_process,
    signal_another_process,
    connect_by_ipv4,
    connect_by_ipv6,
    connect_to_an_abstract_socket,
    connect_to_a_socket_file,
    make_a_vsock,
    write_to_the_host,
    write_to_its_environment,
    remount_the_system,
    make_a_user_namespace,
    open_a_disk_or_the_kernels_log,
    read_the_users_keys,
    change_the_kernels_settings,
)


def lay_traps():
    """Wherever this may write: FIFOs, links to a secret and to a folder of others."""
    events = os.environ.get("CUWHEEL_EVENTS", "")
    service = os.environ.get("CUWHEEL_MEMORY", "")
    folders = [os.path.dirname(events), os.path.dirname(service), os.environ.get("HOME", ""), FACTS["temporary"]]
    for folder in filter(os.path.isdir, filter(None, (*folders, "/cuwheel/built"))):
        for name in ("unpinned", "ccache.log", "sccache-1.json", "a-fifo.whl", "loader.2"):
            _try(os.mkfifo, os.path.join(folder, name))
        closed = os.path.join(folder, "closed")
        _try(os.mkdir, closed)
        _try(os.symlink, FACTS["host"], os.path.join(closed, "link"))
        _try(os.symlink, FACTS["secret"], os.path.join(folder, "loader.1"))
        _try(os.chmod, closed, 0)
    for path in glob.glob("/cuwheel/compiles/*/"):
        _try(os.mkfifo, os.path.join(path, "fifo"))
    for path in (FACTS["memory"], "/cuwheel/memory"):
        _try(os.mkfifo, os.path.join(path, "peaks"))
    if events:
        _try(os.unlink, events)
        _try(os.symlink, FACTS["secret"], events)


def _try(act, *words):
    try:
        act(*words)
    except OSError:
        pass


def attack():
    """Try all of it; a line on standard output says what went well."""
    done, failed = [], {}
    for one in ATTACKS:
        try:
            one()
            done.append(one.__name__)
        except Exception as problem:
            failed[one.__name__] = f"{type(problem).__name__}: {problem}"
    lay_traps()
    leave_a_daemon()
    print("ATTACK", json.dumps({"done": done, "failed": failed}), flush=True)
