"""The runner's units and their installer, with real systemd programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from tests.support.machines.systemd import run_booted
from tests.support.requirements import require

_RUNNER = ROOT / "ci" / "runner"
_SERVICE = "cuwheel-nightly.service"
_MAX_EXPOSURE = 30  # tenths
_HOME = "/var/lib/cuwheel"


def _analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    require("systemd", "that the runner's units are what systemd takes for sound")
    command = ["systemd-analyze", "--no-pager", *map(str, arguments)]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def _verify(tmp_path: Path, wrong: str = "") -> list[str]:
    """Return systemd's messages on the units in a root folder with all programs they start."""
    units = tmp_path / "etc" / "systemd" / "system"
    units.mkdir(parents=True)
    for unit in ("cuwheel-nightly.service", "cuwheel-nightly.timer"):
        shutil.copy(_RUNNER / unit, units)
    with (units / _SERVICE).open("a") as stream:
        stream.write(wrong)
    system = tmp_path / "usr" / "lib" / "systemd" / "system"
    shutil.copytree("/usr/lib/systemd/system", system, symlinks=True)
    for program in (f"{_HOME}/venv/bin/nox", "/usr/bin/nvidia-modprobe", "/sbin/modprobe"):
        path = tmp_path / program.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)

    done = _analyze("verify", f"--root={tmp_path}", "cuwheel-nightly.timer", _SERVICE)

    return [line for line in done.stdout.splitlines() if "cuwheel" in line]


def test_units_are_valid(tmp_path: Path) -> None:
    assert _verify(tmp_path) == []


def test_unknown_option_is_reported(tmp_path: Path) -> None:
    [line] = _verify(tmp_path, "ProtectSystm=strict\n")

    assert "'ProtectSystm'" in line


def test_service_is_hardened() -> None:
    done = _analyze(
        "security", "--offline=true", f"--threshold={_MAX_EXPOSURE}", _RUNNER / _SERVICE
    )

    assert done.returncode == 0, done.stdout
    assert "Overall exposure level" in done.stdout


def test_units_use_the_paths_of_the_installer() -> None:
    install = (_RUNNER / "install").read_text()
    service = (_RUNNER / _SERVICE).read_text()

    assert f"home={_HOME}\n" in install
    assert f"ExecStart={_HOME}/venv/bin/nox -s nightly -- " in service
    assert f"WorkingDirectory={_HOME}/checkout" in service
    assert "EnvironmentFile=-/etc/cuwheel/nightly.env" in service
    assert f"{_HOME}/venv/bin/nox -s nightly" in (_RUNNER / "cuwheel-nightly.cron").read_text()


def test_line_of_cron_starts_the_session(tmp_path: Path) -> None:
    line = (_RUNNER / "cuwheel-nightly.cron").read_text().splitlines()[-1]
    command = line.partition(" cuwheel-nightly ")[2]
    for folder in ("var/lib/cuwheel/checkout", "var/lib/cuwheel/venv/bin", "etc/cuwheel"):
        (tmp_path / folder).mkdir(parents=True)
        command = command.replace(f"/{folder}", f"{tmp_path}/{folder}")
    command = command.replace(f" {_HOME}", f" {tmp_path}{_HOME}").replace(
        f">>{_HOME}", f">>{tmp_path}{_HOME}"
    )
    shutil.copy(_RUNNER / "nightly.env", tmp_path / "etc" / "cuwheel")
    nox = tmp_path / "var/lib/cuwheel/venv/bin/nox"
    nox.write_text('#!/bin/sh\necho "$@"; env\n')
    nox.chmod(0o755)

    subprocess.run(["/bin/bash", "-c", command], check=True)

    log = (tmp_path / "var/lib/cuwheel/cron.log").read_text()
    assert log.startswith(f"-s nightly -- --to {tmp_path}{_HOME}/nightly --update --time-limit")
    assert f"CUWHEEL_CACHE={_HOME}/cache" in log


def _install(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(_RUNNER / "install"), *arguments]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def test_rehearsal_changes_nothing() -> None:
    done = _install("--dry-run", "--cron", "--python", "/usr/bin/python3")

    assert done.returncode == 0, done.stdout
    assert "+ useradd --system --user-group" in done.stdout
    assert "/etc/cron.d/cuwheel-nightly" in done.stdout
    assert not Path(_HOME).exists()


def test_installer_reports_errors() -> None:
    assert "unknown option --cronn" in _install("--cronn").stdout
    assert "holds nothing that this script made" in _install("--undo", "--dry-run").stdout
    assert "--undo" in _install("--help").stdout


# Attempts of the service at what it may and may not do.
_PROBE = r"""
cd /var/lib/cuwheel/checkout
PYTHONPATH=$PWD /var/lib/cuwheel/venv/bin/python -P -m cuwheel.bootstrap engine -c '
from cuwheel.build.sandbox.backends import choose_sandbox
print("sandboxes:", choose_sandbox("bubblewrap"), choose_sandbox("unshare"))
import mmap
mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC)
print("code can be written")
'
grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/self/status
touch /etc/x /usr/x || echo "system: no"
touch x /run/lock/cuwheel-x.lock && echo "own: yes"
cat /home/someone/file || echo "homes: no"
head -c1 /dev/disk-of-test || echo "devices: no"
unshare --user --cgroup true || echo "other namespaces: no"
date -s 2020-01-01 || echo "clock: no"
hostname other || echo "hostname: no"
"""
_SCRIPT = r"""
cd {checkout}
ci/runner/install || exit
sed -i 's/^CUWHEEL_NIGHTLY_OPTIONS=.*/CUWHEEL_NIGHTLY_OPTIONS="no-such-target"/' \
    /etc/cuwheel/nightly.env
mkdir -p /home/someone && echo secret > /home/someone/file && mknod -m 666 /dev/disk-of-test b 7 0
systemctl list-timers --all --no-pager

drop=/etc/systemd/system/cuwheel-nightly.service.d
mkdir $drop
cp {folder}/probe /var/lib/cuwheel/probe
cat > $drop/probe.conf <<EOF
[Service]
ExecStart=
ExecStart=/bin/bash /var/lib/cuwheel/probe
StandardOutput=append:{folder}/output
StandardError=append:{folder}/output
EOF
systemctl daemon-reload
systemctl start cuwheel-nightly
rm -r $drop && systemctl daemon-reload

systemctl start cuwheel-nightly
systemctl show --property=Result,ExecMainStatus cuwheel-nightly
cat /var/lib/cuwheel/nightly/latest/summary.txt

# Ended in its first step; `latest` is the third run.
systemctl start --no-block cuwheel-nightly
until [ "$(ls -d /var/lib/cuwheel/nightly/*/logs | wc -l)" -gt 2 ]; do sleep 0.05; done
systemctl stop cuwheel-nightly
cat /var/lib/cuwheel/nightly/latest/summary.txt

ci/runner/install --undo
id cuwheel-nightly
find / -xdev -name '*cuwheel-nightly*' -not -path '*/ci/runner/*' -newer {folder}/script
ls -d /var/lib/cuwheel /etc/cuwheel /run/lock/cuwheel*
"""


@pytest.mark.e2e
@pytest.mark.nightly
def test_service_is_confined_and_removed_completely(tmp_path: Path) -> None:
    (tmp_path / "probe").write_text(_PROBE)
    script = _SCRIPT.format(checkout=ROOT, folder=tmp_path)

    output = run_booted(tmp_path, script, "that the hardened service can build and use its sandbox")

    assert "cuwheel-nightly.timer" in output
    for expected in (
        "sandboxes: bubblewrap unshare",
        "code can be written",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        *("system: no", "own: yes", "homes: no", "devices: no"),
        *("other namespaces: no", "clock: no", "hostname: no"),
        "- failed  plan",
        "- passed  diagnose",
        "- ended   nightly",
        "no such user",
        "install: removed",
    ):
        assert expected in output, output
    remains = output.partition("install: removed")[2]
    assert remains.count("ls: cannot access") == 3, remains
    assert not [line for line in remains.splitlines() if line.startswith("/")], remains
