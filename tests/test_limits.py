"""What others made costs a bounded amount of memory, and is refused in words where it is larger."""

from __future__ import annotations

import ast
import zipfile
from typing import TYPE_CHECKING

import pytest

from cuwheel import limits
from cuwheel.errors import UnsafeArchiveError
from cuwheel.paths import ROOT
from cuwheel.wheel.archive import open_wheel
from tests.support.audited import make_wheel
from tests.support.bombs import IMPORTS, MIB, peak_of, write_bomb

if TYPE_CHECKING:
    from pathlib import Path

# What reads a file whole, and why that is bounded. All else goes through `system/whole_files`,
# `system/regular_files`, or reads a number of bytes.
READ_WHOLE = {
    "build/launcher/canary": "the event log of its own compiles",
    "bootstrap": "the repository's own lock; it runs on nothing but the standard library",
    "build/progress": "an event log, which its reader limits",
    "cuda/torch_exports": "the engine's own table",
    "drafts/readers/setup_py": "no file: a syntax tree, which was read in bounds",
    "index/check/snapshot": "a file whose size was compared with a limit",
    "laid_out": "the engine's own files",
    "perf/package": "a RECORD that was checked, and limited, when its environment was made",
    "sandbox/system_calls": "the filter that libseccomp has just made",
    "smoke/loaded_libraries": "a RECORD, as in perf/package",
    "verify/compare/elf": "sections, whose size was compared with a limit",
    "verify/compare/relocated": "likewise",
    "wheel/metadata": "no file: bytes that were read in bounds",
    # These run in the sandbox of the package that has written what they read, or read the kernel's
    # files, or what the engine has written.
    "standalone/launcher/command_line": "option files of the package",
    "standalone/launcher/kept_files": "sources and headers of the package, what compilers wrote",
    "standalone/memory_gate/child": "the kernel's",
    "standalone/memory_gate/free_memory": "the kernel's",
    "standalone/memory_gate/ledger": "the engine's",
    "standalone/memory_gate/peaks": "the engine's, which limits keys",
    "standalone/namespaces/enter": "the kernel's",
    "standalone/signing/bundles": "the engine's, and a trust configuration that was read in bounds",
    "standalone/probes/environment": "metadata in the environment that it runs in",
}
_WHOLE = ("read_bytes", "read_text", "readlines")
_PARSERS = ("json", "pickle", "tomli", "tomllib")

_AUDIT = """
from cuwheel.audit.session import AuditOptions, audit_session
from cuwheel.errors import AuditError
from cuwheel.system.console import Console
try:
    audit_session([Path(sys.argv[1])], (), Console(), AuditOptions())
except AuditError as error:
    print(error)
"""
_INDEX = """
from cuwheel.errors import WheelIndexError
from cuwheel.index.folder_index import write_index
try:
    write_index(Path(sys.argv[1]))
except WheelIndexError as error:
    print(error)
"""
BOMBS = {
    "METADATA": (b"Classifier: a\n", "METADATA has 256.0 MiB unpacked, and the limit is 4.0 MiB"),
    "WHEEL": (b"Tag: py3-none-any\n", "WHEEL has 256.0 MiB unpacked, and the limit is 4.0 MiB"),
    "RECORD": (b"a,,\n", "RECORD has 256.0 MiB unpacked, and the limit is 16.0 MiB"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_wheel_larger_inside_than_any_costs_no_memory(tmp_path: Path, name: str) -> None:
    line, fault = BOMBS[name]
    write_bomb(tmp_path, {name: (line, 256 * MIB)})
    sound = make_wheel(tmp_path)

    audited, memory = peak_of(_AUDIT, tmp_path)

    assert fault in " ".join(audited.split())
    assert f"{sound.name}: nothing found" in audited
    assert memory < IMPORTS


def test_index_of_wheel_larger_inside_than_any_costs_no_memory(tmp_path: Path) -> None:
    line, fault = BOMBS["METADATA"]
    write_bomb(tmp_path, {"METADATA": (line, 256 * MIB)})

    said, memory = peak_of(_INDEX, tmp_path)

    assert fault in said
    assert memory < IMPORTS


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("name", "line", "size", "fault"),
    [
        ("RECORD", b"a\n", 15 * MIB, "it has more than 300,000 rows"),
        ("RECORD", b"\n", 15 * MIB, "it is missing or empty"),
        ("METADATA", b"a:\n", MIB, "RECORD"),
        ("METADATA", b"Requires-Dist: a\n", MIB, "RECORD"),
    ],
    ids=["rows", "empty lines", "headers", "requirements"],
)
def test_largest_texts_of_wheels_cost_bounded_memory(
    tmp_path: Path, name: str, line: bytes, size: int, fault: str
) -> None:
    write_bomb(tmp_path, {name: (line, size)})

    said, memory = peak_of(_AUDIT, tmp_path)

    assert fault in " ".join(said.split())
    assert memory < limits.MEMORY


def test_refuses_table_of_members_that_no_wheel_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(tmp_path)
    with zipfile.ZipFile(wheel, "a") as archive:
        for number in range(100):
            archive.writestr(f"pkg/{number}", "")
    monkeypatch.setattr(limits, "ARCHIVE_TABLE", 1000)

    with pytest.raises(UnsafeArchiveError) as caught, open_wheel(wheel):
        pass

    assert "the limit for its table of members is 1,000 bytes" in caught.value.why


@pytest.mark.parametrize(
    ("limit", "fault"),
    [("MEMBER", "unpacked, and the limit is 1 byte"), ("WHEEL", "all members have")],
)
def test_refuses_contents_that_no_wheel_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, fault: str
) -> None:
    wheel = make_wheel(tmp_path)
    monkeypatch.setattr(limits, limit, 1)

    with pytest.raises(UnsafeArchiveError) as caught, open_wheel(wheel):
        pass

    assert fault in caught.value.why


def reads_whole(module: Path) -> bool:
    """Whether a module reads a file to its end, however long it is."""
    calls = [node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Call)]
    for call in calls:
        if not isinstance(call.func, ast.Attribute):
            continue
        name, of = call.func.attr, ast.unparse(call.func.value)
        if name == "read_text" and of.rpartition(".")[2] == "wheel":  # a member: the archive limits
            continue
        if name in _WHOLE or (name == "read" and not call.args):
            return True
        if name == "load" and of in _PARSERS:
            return True
    return False


def test_no_module_reads_a_file_whole_but_through_the_limited_readers() -> None:
    engine = ROOT / "cuwheel"

    found = {
        module.relative_to(engine).with_suffix("").as_posix()
        for module in engine.rglob("*.py")
        if reads_whole(module)
    }

    assert found == {*READ_WHOLE}


_LINES = {
    "lock": ("l.lock", b"a==1\n", limits.LOCK),
    "conda lock": ("conda-lock.yml", b"- a\n", limits.YAML),
    "patch": ("p.patch", b"+\n", limits.PATCH),
    "module": ("setup.py", b"a\n", limits.PYTHON),
    "TOML": ("pyproject.toml", b"a=1\n", limits.TEXT),
}
_READ = """
from cuwheel import limits
from cuwheel.conda.yaml_file import read_yaml
from cuwheel.pypi.lock_file import read_pins
from cuwheel.system.parsed_files import read_module, read_toml
from cuwheel.system.whole_files import read_bytes, read_end
path = Path(sys.argv[2])
try:
    {
        "lock": read_pins,
        "conda lock": read_yaml,
        "patch": lambda path: read_bytes(path, limit=limits.PATCH),
        "module": read_module,
        "TOML": read_toml,
        "log": lambda path: print(read_end(path)[-20:].strip()),
    }[sys.argv[1]](path)
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.parametrize("kind", _LINES)
def test_file_without_end_is_an_error_and_costs_no_memory(tmp_path: Path, kind: str) -> None:
    name, line, limit = _LINES[kind]
    path = tmp_path / name
    with path.open("wb") as stream:
        stream.write(line * 1000)
        stream.truncate(8 << 30)  # the rest is zeros that take no room

    said, memory = peak_of(_READ, kind, path)

    assert f"it has more than {limit >> 20} MiB" in said
    assert memory < IMPORTS


def test_log_without_end_shows_its_end(tmp_path: Path) -> None:
    path = tmp_path / "build.log"
    with path.open("wb") as stream:
        stream.truncate(8 << 30)
        stream.seek(0, 2)
        stream.write(b"\nerror: the last line\n")

    said, memory = peak_of(_READ, "log", path)

    assert "the last line" in said
    assert memory < IMPORTS
