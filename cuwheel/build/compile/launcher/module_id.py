"""Module ids without a process id, for an nvcc before 12.9, which has no `-frandom-seed`.

cudafe++ writes a translation unit's module id to a file that cicc reads too, and puts it into the
names of internal symbols: `_<crc32 of the path>_<length>_<file name>_<tail>`. Where the unit has no
external symbol, the tail is `<checksum>_<process id>`, and the checksum depends on a time. Without
`--gen_module_id_file` cudafe++ takes the id that the file holds: read off cudafe++ 11.8 and 12.4.
"""

from __future__ import annotations

import binascii
import re

from cuwheel.build.compile.launcher import kept_files
from cuwheel.build.compile.memory_gate import gate

_WRITES_ID = "--gen_module_id_file"
_FILE = "--module_id_file_name"
_OF_PROCESS = re.compile(rb"(.*_)[0-9a-f]{8}_\d+", re.DOTALL)
_LINE_MARKER = re.compile(rb"^# \d.*$", re.MULTILINE)  # holds paths of this machine


def main(real: str, arguments: list[str], flags: tuple[str, ...]) -> int:
    """Run cudafe++, and once more with a module id of our own where its own has a process id.

    Args:
        flags: the options for equal bytes that nvcc has, as in `rewrite.Settings`.

    Returns:
        The exit status, as `gate.main`.
    """
    status = gate.main(real, arguments)
    if status or "seed" in flags or _WRITES_ID not in arguments or _FILE not in arguments:
        return status
    place = arguments[arguments.index(_FILE) + 1]
    try:
        process = _OF_PROCESS.fullmatch(kept_files.read(place))
        if not process:
            return status
        source = _LINE_MARKER.sub(b"", kept_files.read(arguments[-1]))
        kept_files.replace(place, process[1] + b"%08x" % binascii.crc32(source))
    except OSError:
        return status
    return gate.main(real, [word for word in arguments if word != _WRITES_ID])
