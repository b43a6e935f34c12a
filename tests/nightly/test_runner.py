"""The runner's units, and what installs them, on real systemd programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cuwheel.paths import ROOT
from tests.support.booted import run_booted
from tests.support.requirements import require

_RUNNER = ROOT / "ci" / "runner"
_SERVICE = "cuwheel-nightly.service"
_MAX_EXPOSURE = 30  # tenths
_HOME = "/var/lib/cuwheel"


def _analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    require("systemd", "that the runner's units are what systemd takes for sound")
    command = ["systemd-analyze", "--no-pager", *map(str, words)]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def _verify(tmp_path: Path, wrong: str = "") -> list[str]:
    """What systemd says of the units in a root of their own, where all that they start is there."""
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


def test_units_are_sound(tmp_path: Path) -> None:
    assert _verify(tmp_path) == []


def test_unknown_option_would_be_noticed(tmp_path: Path) -> None:
    [said] = _verify(tmp_path, "ProtectSystm=strict\n")

    assert "'ProtectSystm'" in said


def test_service_is_hardened() -> None:
    done = _analyze(
        "security", "--offline=true", f"--threshold={_MAX_EXPOSURE}", _RUNNER / _SERVICE
    )

    assert done.returncode == 0, done.stdout
    assert "Overall exposure level" in done.stdout


def test_every_path_of_the_units_is_one_that_install_makes() -> None:
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

    said = (tmp_path / "var/lib/cuwheel/cron.log").read_text()
    assert said.startswith(f"-s nightly -- --to {tmp_path}{_HOME}/nightly --update --time-limit")
    assert f"CUWHEEL_CACHE={_HOME}/cache" in said


def _install(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(_RUNNER / "install"), *words]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def test_rehearsal_changes_nothing() -> None:
    done = _install("--dry-run", "--cron", "--python", "/usr/bin/python3")

    assert done.returncode == 0, done.stdout
    assert "+ useradd --system --user-group" in done.stdout
    assert "/etc/cron.d/cuwheel-nightly" in done.stdout
    assert not Path(_HOME).exists()


def test_says_what_is_wrong_before_it_begins() -> None:
    assert "unknown option --cronn" in _install("--cronn").stdout
    assert "holds nothing that this script made" in _install("--undo", "--dry-run").stdout
    assert "--undo" in _install("--help").stdout


# What the service may and may not do, tried from inside.
_PROBE = r"""
cd /var/lib/cuwheel/checkout
PYTHONPATH=$PWD /var/lib/cuwheel/venv/bin/python -P -m cuwheel.bootstrap engine -c '
from cuwheel.sandbox.backends import choose_sandbox
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

# Ended in its first step, beside the run before; `latest` is the third.
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
def test_service_runs_within_its_walls_and_goes_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "probe").write_text(_PROBE)
    script = _SCRIPT.format(checkout=ROOT, folder=tmp_path)

    said = run_booted(tmp_path, script, "that the hardened service can build and use its sandbox")

    assert "cuwheel-nightly.timer" in said
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
        assert expected in said, said
    gone = said.partition("install: removed")[2]
    assert gone.count("ls: cannot access") == 3, gone
    assert not [line for line in gone.splitlines() if line.startswith("/")], gone
