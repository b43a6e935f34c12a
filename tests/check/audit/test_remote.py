"""Wheels on a real server, of which only parts are read."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import DownloadError, HashMismatchError, UnsafeArchiveError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import sha256_of_file
from cuwheel.check.audit import audit as command
from cuwheel.check.audit import remote
from cuwheel.check.audit.remote import audit_remote
from cuwheel.check.audit.verdict import audit_wheel
from cuwheel.check.cuda.torch_exports import is_judged, torch_exports
from tests.support.check.scans import begin_fatbin
from tests.support.factories import noise, write_wheel
from tests.support.packages.bombs import peak_of
from tests.support.packages.defective_wheels import make_library
from tests.support.servers.http import Site, serving

TAG = "cp312-cp312-manylinux_2_28_x86_64"
MOST = 1 << 19  # bytes; the wheels here have more
NOISE = noise(2 * MOST)


@pytest.fixture(autouse=True)
def _budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(remote, "MOST", MOST)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel with a large library for PyTorch: its code and what no reader gets to."""
    table = torch_exports()
    symbol = next(name for name in table.names if is_judged(name) and table.releases_with(name))
    code = f"int {symbol}(void); int f(void) {{ return {symbol}(); }}"
    library = make_library(
        tmp_path / "made", "libc10.so", code=code, flags=("-Wl,--hash-style=gnu", "-fuse-ld=bfd")
    )
    content = library.read_bytes() + begin_fatbin(90, len(NOISE)) + NOISE
    files: dict[str, bytes | Path] = {"toy/x.so": content, "toy/__init__.py": b""}
    return write_wheel(tmp_path, files, name="toy", tag=TAG, requires=("torch",))


@pytest.fixture
def site(wheel: Path) -> Iterator[Site]:
    with serving(Site(files={f"/{wheel.name}": wheel.read_bytes()})) as served:
        yield served


def read(site: Site, login: str = "") -> Any:
    [path] = site.files
    return audit_remote(site.url(path, login), path[1:])


def test_parts_show_what_the_whole_shows(site: Site, wheel: Path) -> None:
    parts, whole = read(site), audit_wheel(wheel)

    assert parts.torch == whole.torch
    assert parts.torch
    assert parts.archs == whole.archs == ("90",)
    assert parts.parts.received <= MOST < parts.parts.size
    assert not parts.parts.is_all_code_known


def test_small_wheel_is_audited(site: Site, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MOST", 4 * len(NOISE))

    result = read(site)

    assert result.parts is None
    assert result.findings == audit_wheel(wheel).findings


def test_small_wheel_is_compared_with_the_hash_in_its_address(
    site: Site, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "MOST", 4 * len(NOISE))
    address = site.url(f"/{wheel.name}")

    assert audit_remote(f"{address}#sha256={sha256_of_file(wheel)}", wheel.name).parts is None
    with pytest.raises(HashMismatchError, match="is not the file of its hash"):
        audit_remote(f"{address}#egg=toy&sha256={'0' * 64}", wheel.name)


def test_leaves_out_what_is_not_known(site: Site, tmp_path: Path) -> None:
    other = write_wheel(
        tmp_path / "other",
        {"toy/x.so": b"\x7fELF" + NOISE},
        name="toy",
        tag=TAG,
        requires=("torch",),
    )
    site.files = {f"/{other.name}": other.read_bytes()}

    result = read(site)

    assert (result.torch, result.majors, result.archs) == (None, (), ())
    assert [item.rule for item in result.findings] == ["not checked"]


class _Changing(dict[str, Any]):
    """The first answer is about another file than all others."""

    def __init__(self, first: Any, *args: Any) -> None:
        super().__init__(*args)
        self.first = [first]

    def __getitem__(self, key: str) -> Any:
        return self.first.pop() if self.first else super().__getitem__(key)

    def items(self) -> Any:
        return self.first.pop().items() if self.first else super().items()


def _ignore_range(site: Site) -> None:
    site.knows_range = False


def _send_other_part(site: Site) -> None:
    site.knows_range, site.headers = False, {"Content-Range": "bytes 5-70000/9999999"}


def _compress(site: Site) -> None:
    site.headers = {"Content-Encoding": "gzip"}


def _break_off(site: Site) -> None:
    site.breaks = [65536, 100]


def _replace_file(site: Site) -> None:
    [content] = site.files.values()
    site.files = _Changing(content + b"1", site.files)


def _replace_tag(site: Site) -> None:
    site.headers = _Changing({"ETag": '"1"'}, {"ETag": '"2"'})


def _claim(size: str) -> Callable[[Site], None]:
    def misbehave(site: Site) -> None:
        site.knows_range, site.headers = False, {"Content-Range": f"bytes 0-65535/{size}"}

    return misbehave


@pytest.mark.parametrize(
    ("misbehave", "text"),
    [
        (_ignore_range, "in parts"),
        (_send_other_part, "in parts"),
        (_compress, "in parts"),
        (_break_off, "100 bytes read"),
        (_replace_file, "changed"),
        (_replace_tag, "changed"),
        *((_claim("9" * digits), "in parts") for digits in (14, 19, 20, 5000)),
        (lambda site: site.statuses.append(403), "403"),
    ],
)
def test_bad_answer_is_an_error(misbehave: Callable[[Site], None], text: str, site: Site) -> None:
    misbehave(site)

    with pytest.raises(DownloadError, match=text):
        read(site)


def test_follows_redirect_and_keeps_password(site: Site) -> None:
    [(path, content)] = site.files.items()
    site.files, site.moved = {path: content}, {"/old.whl": path}
    site.password = "Basic bWU6c2VjcmV0"

    result = audit_remote(site.url("/old.whl", "me:secret@"), path[1:])
    with pytest.raises(DownloadError) as caught:
        read(site, "me:guess@")

    assert result.parts
    assert "guess" not in str(caught.value)


def test_table_beyond_the_budget_is_not_read(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "big-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(9000):
            archive.writestr(f"{number}{'x' * 80}", b"")
    site.files = {f"/{path.name}": path.read_bytes()}

    with pytest.raises(DownloadError, match="wasn't read to its end"):
        read(site)
    assert sum(_requested(site)) <= MOST


def test_long_header_of_a_member_is_no_damage(site: Site, wheel: Path) -> None:
    entry = zipfile.ZipInfo("toy/data.so")
    entry.extra = struct.pack("<HH60000x", 0xCAFE, 60000)
    with zipfile.ZipFile(wheel, "a") as archive:
        begin = -archive.start_dir % (1 << 16) + 20000  # so that its end is in a block of its own
        archive.writestr("toy/first.txt", NOISE[:begin])
        archive.writestr(entry, NOISE[:100000])
        archive.writestr("toy/last.txt", NOISE[: 1 << 18])
    site.files = {f"/{wheel.name}": wheel.read_bytes()}

    assert read(site).torch == audit_wheel(wheel).torch


def test_bomb_costs_no_memory(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "bomb-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a.so",):
            with archive.open(name, "w", force_zip64=True) as stream:
                for _ in range(300):
                    stream.write(bytes(1 << 20))
        archive.writestr("noise.bin", NOISE)
        archive.writestr("bomb-1.0.dist-info/METADATA", "Name: bomb\n")
    site.files = {f"/{path.name}": path.read_bytes()}
    code = "from cuwheel.check.audit import remote; remote.MOST = 1 << 19; "
    code += "print(remote.audit_remote(sys.argv[1], sys.argv[2]).parts)"

    output, peak = peak_of(code, site.url(f"/{path.name}"), path.name)

    assert "ReadParts" in output
    assert peak < 700 << 20


def test_lies_in_the_table_are_damage(site: Site, wheel: Path) -> None:
    content = wheel.read_bytes().replace(b"toy/x.so", b"toy/y.so", 1)
    site.files = {f"/{wheel.name}": content}

    with pytest.raises(UnsafeArchiveError):
        read(site)


def test_audit_takes_an_address(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    [path] = site.files

    command.audit_session(
        [site.url(path)], lambda _: None, Console(), command.AuditOptions(folder=Path())
    )

    printed = capsys.readouterr().out
    assert "were read for the facts" in printed
    assert "sm_90, and what the rest has" in printed


def test_wheels_of_the_same_name_are_all_audited(
    site: Site, wheel: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    [path] = site.files
    site.files[f"/other{path}"] = site.files[path]
    options = command.AuditOptions(fails_on="never", sarif=tmp_path / "sarif.json")
    addresses = [site.url(path), site.url(f"/other{path}")]

    command.audit_session([wheel, *addresses], lambda _: None, Console(), options)

    assert capsys.readouterr().out.count("were read for the facts") == len(addresses)
    assert options.sarif
    assert options.sarif.read_text().count("were read for the facts") == len(addresses)
    assert {path for path, _ in site.asked} == {path, f"/other{path}"}


@pytest.mark.parametrize(
    "address",
    [
        *("http://127.0.0.1/six.tar.gz", "https://[::1/six.whl"),
        *("http://127.0.0.1/a%00b.whl", f"http://127.0.0.1/{'a' * 252}.whl"),
    ],
)
def test_audit_refuses_other_addresses(address: str) -> None:
    with pytest.raises(UsageError):
        command.audit_session([address], lambda _: None, Console(), command.AuditOptions())


def _requested(site: Site) -> Iterator[int]:
    for _, span in site.asked:
        first, _, last = span.removeprefix("bytes=").partition("-")
        yield int(last) - int(first) + 1
