"""systemd as the first process of namespaces, over a copy of this machine that is thrown away."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from pathlib import Path

from tests.support.requirements import lack
from tests.support.waiting import wait_for

_TIME_LIMIT = 500.0  # seconds
_DONE = "the script has ended\n"
# Everything is read through an overlay, which keeps in memory what is written. systemd gets a tree
# of cgroups, /dev, /proc and /run of its own. Units of this machine that would do something are
# off: one of them empties /tmp, where the folder is.
_BOOT = r"""
set -eu
folder=$1
root=/mnt/root
mount --make-rprivate /
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work $root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work $root
mount -t proc proc $root/proc
mount -t sysfs sysfs $root/sys
mount -t cgroup2 none $root/sys/fs/cgroup
mount -t tmpfs -o mode=755 none $root/dev
for name in null zero full random urandom tty; do
    touch $root/dev/$name
    mount --bind /dev/$name $root/dev/$name
done
mkdir $root/dev/pts $root/dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts $root/dev/pts
mount -t tmpfs -o mode=1777 none $root/dev/shm
ln -s pts/ptmx $root/dev/ptmx
ln -s /proc/self/fd $root/dev/fd
mount -t tmpfs -o mode=755 none $root/run
mkdir -m 1777 $root/run/lock
mount --bind "$folder" "$root$folder"
for unit in systemd-udevd.service systemd-udev-trigger.service systemd-timesyncd.service \
    systemd-resolved.service networking.service tmp.mount systemd-tmpfiles-setup.service \
    systemd-tmpfiles-clean.service systemd-tmpfiles-clean.timer apt-daily.timer \
    apt-daily-upgrade.timer; do
    ln -sf /dev/null $root/etc/systemd/system/$unit
done
cat > $root/etc/systemd/system/script.service <<EOF
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/bash "$folder/script"
StandardOutput=append:$folder/output
StandardError=append:$folder/output
TimeoutStartSec=infinity
ExecStopPost=/bin/systemctl exit --force --force
EOF
cd $root
mkdir -p before
pivot_root . before
umount -l /before
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system \
    --unit=script.service --log-target=console --log-level=warning --show-status=no
"""


def run_booted(folder: Path, script: str, proves: str) -> str:
    """Run a script as root where systemd runs; its output, errors among it.

    The test is skipped where this machine lets nobody do that.

    Args:
        folder: for the script and its output; the only one that both sides see.
        script: of bash; each variable of pip is there.
        proves: as `require` has it.
    """
    if os.geteuid() != 0 or not Path("/lib/systemd/systemd").exists():
        lack("boot", "this needs root and systemd (Debian: systemd)", proves)
    kept = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "SSL_"))}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in kept.items()]
    lines += ["export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
    (folder / "script").write_text("\n".join((*lines, script, f"echo {_DONE}")))
    output = folder / "output"
    cgroup = _own_cgroup(proves)
    within = ("bash", "-c", 'echo $$ > "$0" && exec "$@"', str(cgroup / "cgroup.procs"))
    namespaces = ("--mount", "--pid", "--fork", "--cgroup", "--uts", "--ipc", "--kill-child")
    with subprocess.Popen(
        [*within, "unshare", *namespaces, "bash", "-c", _BOOT, "boot", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as child:
        try:
            said, _ = child.communicate(timeout=_TIME_LIMIT)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
            _remove(cgroup)
    if not output.exists():
        lack("boot", f"systemd doesn't boot in namespaces: {said.strip()}", proves)
    text = output.read_text()
    assert text.endswith(_DONE), f"{text}\n{said}"
    return text


def _own_cgroup(proves: str) -> Path:
    """A cgroup below that of this process, which systemd takes for the root of all."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    trees = [Path(words[1]) for words in mounts if words[2] == "cgroup2"]
    own = [
        line.partition("::")[2]
        for line in Path("/proc/self/cgroup").read_text().splitlines()
        if line.startswith("0::")
    ]
    if not trees or not own:
        lack("boot", "this machine has no cgroup2", proves)
    cgroup = trees[0] / own[0].lstrip("/") / f"cuwheel-boot-{os.getpid()}"
    try:
        cgroup.mkdir()
    except OSError as error:
        lack("boot", f"{cgroup} can't be made: {error.strerror}", proves)
    return cgroup


def _remove(cgroup: Path) -> None:
    """Remove a cgroup with those that systemd made below it, the innermost first."""
    for folder, _, _ in os.walk(cgroup, topdown=False):
        wait_for(lambda path=Path(folder): _is_removed(path))  # type: ignore[misc]


def _is_removed(cgroup: Path) -> bool:
    """Whether it could be: its last process may just be ending."""
    with contextlib.suppress(OSError):
        cgroup.rmdir()
    return not cgroup.exists()
