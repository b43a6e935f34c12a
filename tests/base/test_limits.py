"""Input from outside costs a bounded amount of memory, and is refused where it is larger."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from cuwheel.base import limits
from cuwheel.base.errors import UnsafeArchiveError
from cuwheel.base.formats.wheel.archive import open_wheel
from tests.support.check.audits import make_wheel
from tests.support.lint.file_readers import is_offence
from tests.support.packages.bombs import IMPORTS, MIB, peak_of, write_bomb

_AUDIT = """
from cuwheel.check.audit.audit import AuditOptions, audit_session
from cuwheel.base.errors import AuditError
from cuwheel.base.system.console import Console
try:
    audit_session([Path(sys.argv[1])], lambda _: None, Console(), AuditOptions())
except AuditError as error:
    print(error)
"""
_INDEX = """
from cuwheel.base.errors import WheelIndexError
from cuwheel.build.wheelhouse.folder_index import write_index
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

    output, memory = peak_of(_INDEX, tmp_path)

    assert fault in output
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

    output, memory = peak_of(_AUDIT, tmp_path)

    assert fault in " ".join(output.split())
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


@pytest.mark.parametrize(
    "text",
    [
        "path.open()",
        "open(name, encoding='utf-8')",
        "Path(name).read_text()",
        "path.read_bytes()",
        "zipfile.ZipFile(path)",
        "tarfile.open(path, 'r:gz')",
        "gzip.open(path, mode='rt')",
        "os.open(path, os.O_RDONLY)",
        "json.loads(text)",
        "json.load(stream)",
        "tomli.loads(text)",
        "yaml.load(text, Loader)",
        "stream.read()",
        "shutil.copy2(path, target)",
        "partial(shutil.copytree, copy_function=copy_regular)",
    ],
)
def test_lint_finds_direct_opens_and_parsers(text: str) -> None:
    assert is_offence(text)


_LINES = {
    "lock": ("l.lock", b"a==1\n", limits.LOCK),
    "conda lock": ("conda-lock.yml", b"- a\n", limits.YAML),
    "patch": ("p.patch", b"+\n", limits.PATCH),
    "module": ("setup.py", b"a\n", limits.PYTHON),
    "TOML": ("pyproject.toml", b"a=1\n", limits.TEXT),
}
_READ = """
from cuwheel.base import limits
from cuwheel.build.toolchains.conda.environment_file import read_yaml
from cuwheel.build.environments.lock_file import read_pins
from cuwheel.base.system.regular_files import read_module, read_toml
from cuwheel.base.system.regular_files import read_bytes, read_end
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

    output, memory = peak_of(_READ, kind, path)

    assert f"it has more than {limit >> 20} MiB" in output
    assert memory < IMPORTS


def test_log_without_end_shows_its_end(tmp_path: Path) -> None:
    path = tmp_path / "build.log"
    with path.open("wb") as stream:
        stream.truncate(8 << 30)
        stream.seek(0, 2)
        stream.write(b"\nerror: the last line\n")

    output, memory = peak_of(_READ, "log", path)

    assert "the last line" in output
    assert memory < IMPORTS
