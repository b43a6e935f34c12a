"""Failures for which the machine, its disks or its rights are the cause."""

from __future__ import annotations

from tests.support.check.situations import WITHOUT_RIGHTS
from tests.support.check.trials import Trial

_MOUNTS = "unshare --user --map-root-user --mount bash -c"
TRIALS = (
    Trial(
        cause="locale-encoding",
        before="printf 'gr\\303\\266\\303\\237er' > readme",
        command="python3 -c 'print(open(\"readme\").read())'",
        typed="export LC_ALL=C.UTF-8",
    ),
    Trial(
        cause="disk-full",
        before="mkdir small big && echo 'char data[3000000] = {1}; int main() {}' > a.c",
        settings="export TMPDIR=small",
        command=f"""{_MOUNTS} 'mount -t tmpfs -o size=300k none small
        dir=$(mktemp -d) && gcc a.c -o $dir/program'""",
        typed="mkdir -p /big",
        values={"/big": "$PWD/big"},
        needs=("namespaces",),
    ),
    Trial(
        cause="nccl-shm-too-small",
        command=f"""{_MOUNTS} 'mount -t tmpfs -o size=${{SIZE-64k}} none /dev/shm
        python3 -c "
import os, multiprocessing.shared_memory as m
block = m.SharedMemory(create=True, size=1)
try:
    os.posix_fallocate(block._fd, 0, 1 << 20)
except OSError as error:
    raise OSError(error.errno, error.strerror, block._name)
finally:
    block.unlink()"'""",
        typed="shm_size:",
        action="export SIZE=$(echo '{}' | sed 's/.* \\([0-9]*\\)gb/\\1g/')",
        needs=("namespaces",),
    ),
    Trial(
        cause="permission-denied",
        before="mkdir shared && chmod 555 shared",
        settings="export TORCH_EXTENSIONS_DIR=$PWD/shared TMPDIR=$PWD/shared",
        command=f"""{" ".join(WITHOUT_RIGHTS)} sh -c 'mkdir -p $TORCH_EXTENSIONS_DIR/ops
        mktemp'""",
        typed="mkdir -p",
        needs=("root",),
    ),
    Trial(
        cause="cross-device-rename",
        before="""
        mkdir p && cat > p/setup.py <<'END'
import os, tempfile
from setuptools import setup
handle, name = tempfile.mkstemp()
try:
    os.rename(name, os.environ["KEPT"])
except OSError:
    os.unlink(name)
    raise
setup(name="tiny", version="1.0", py_modules=[])
END""",
        settings="""venv; export PIP_NO_INDEX=1 KEPT=$PWD/kept TMPDIR=${TMPDIR-/dev/shm}""",
        command="pip install --no-build-isolation ./p",
        typed="mkdir -p tmp",
        values={"PACKAGE": "./p"},
        again="{}",
        needs=("disks",),
    ),
    Trial(
        cause="path-too-long",
        command='python3 -c \'import os; open(os.environ.get("OUT", "a" * 300), "w")\'',
        advice="a name of at most (?P<most>[0-9]+) bytes",
        action="export OUT=$(head -c $most /dev/zero | tr '\\0' a)",
    ),
    Trial(
        cause="time-limit",
        command='python3 -c \'import os, subprocess; subprocess.run(["sleep", "1"], '
        'timeout=float(os.environ.get("LIMIT", "0.1")))\'',
        advice="give the job more time",
        action="export LIMIT=60",
    ),
    Trial(
        cause="environment-module-missing",
        before="""
        echo 'module() { echo "loaded $2"; }' > .bash_profile
        printf '#!/bin/bash\\nmodule load cuda/13.0\\n' > job.sh && chmod +x job.sh""",
        command="./job.sh; [ $? = 0 ] || exit 1",
        typed="#!/bin/bash -l",
        action="sed -i '1s|.*|{}|' job.sh",
    ),
    Trial(
        cause="system-packages-conflict",
        before="""
        mkdir -p repository state/lists/partial cache/archives/partial && touch status
        printf '%s\\n' 'Package: cuda' 'Version: 13.0' 'Architecture: all' 'Size: 1' \\
            'Filename: ./cuda.deb' 'Depends: cuda-toolkit-13-0, nvidia-driver-580' \\
            'Description: all' '' 'Package: cuda-toolkit-13-0' 'Version: 13.0' \\
            'Architecture: all' 'Size: 1' 'Filename: ./toolkit.deb' 'Description: tools' '' \\
            > repository/Packages
        echo "deb [trusted=yes] file:$PWD/repository ./" > sources
        printf '%s\\n' "Dir::State \\"$PWD/state\\";" "Dir::State::status \\"$PWD/status\\";" \\
            "Dir::Cache \\"$PWD/cache\\";" "Dir::Etc::sourcelist \\"$PWD/sources\\";" \\
            'Dir::Etc::sourceparts "-";' 'APT::Sandbox::User "root";' > apt.conf
        APT_CONFIG=apt.conf apt-get -q update""",
        settings="export APT_CONFIG=apt.conf",
        command="apt-get -s install ${WHAT-cuda}",
        advice="Install only the toolkit .(?P<toolkit>cuda-toolkit-13-0)., not `cuda`",
        action="WHAT=$toolkit",
        needs=("apt",),
    ),
)
