"""A Python of this machine that is told of another one: real interpreters, real variables."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from cuwheel.cross.python_settings import headers_of, python_variables, write_python_settings
from cuwheel.cross.target_root import read_target_root
from cuwheel.model.platform import AARCH64
from cuwheel.system.process import run
from tests.support.foreign import write_python

if TYPE_CHECKING:
    from pathlib import Path

_ASK = """
import json, sysconfig
names = ("EXT_SUFFIX", "SOABI", "INCLUDEPY")
print(json.dumps([sysconfig.get_platform(), *map(sysconfig.get_config_var, names)]))
"""


def told(folder: Path, root: Path) -> Any:
    write_python(root / "usr")
    folder.mkdir()
    write_python_settings(folder, read_target_root(root, AARCH64, "3.11"))
    variables = {"PATH": os.defpath, **python_variables(folder, AARCH64)}
    return json.loads(run([sys.executable, "-c", _ASK], env=variables).output)


def test_python_answers_as_the_other_machines_would(tmp_path: Path) -> None:
    made = tmp_path / "made"

    platform, suffix, soabi, headers = told(made, tmp_path / "root")

    assert platform == "linux-aarch64"
    assert suffix == ".cpython-311-aarch64-linux-gnu.so"
    assert soabi == "cpython-311-aarch64-linux-gnu"
    assert headers == str(headers_of(made))


def test_headers_lie_in_one_folder(tmp_path: Path) -> None:
    """Those of the machine in place of what Debian writes for all of them."""
    told(tmp_path / "made", tmp_path / "root")

    found = headers_of(tmp_path / "made")

    assert (found / "Python.h").is_file()
    assert (found / "pyconfig.h").read_text() == "#define SIZEOF_LONG 8\n"


def test_settings_move_with_their_folder(tmp_path: Path) -> None:
    """A sandbox shows them at another path than the one at which they were written."""
    told(tmp_path / "made", tmp_path / "root")
    (tmp_path / "made").rename(tmp_path / "seen")
    variables = {"PATH": os.defpath, **python_variables(tmp_path / "seen", AARCH64)}

    said = json.loads(run([sys.executable, "-c", _ASK], env=variables).output)

    assert said[-1] == str(tmp_path / "seen" / "include")
