from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import LockError
from cuwheel.build.environments.lock_file import (
    check_pins,
    cuda_of_lock,
    faults_of_lock,
    pinned_version,
    pythons_of_lock,
    read_input,
    read_pins,
    render,
)

_WANTED = "tiny-dep==1.0\n"
_HASHES = ("a" * 64, "b" * 64)
_BODY = f"""# as the resolver writes it
tiny-dep==1.0 ; python_full_version >= '3.10' \\
    --hash=sha256:{_HASHES[0]} \\
    --hash=sha256:{_HASHES[1]}
    # via -r tiny.in
other-dep==2.5.1 --hash=sha256:{_HASHES[0]}
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.lock"
    path.write_text(
        render(_BODY, input_text=_WANTED, command="nox -s lock -- tiny", cooldown="2026-01-01")
    )
    return path


@pytest.mark.parametrize(
    ("change", "wanted", "fault"),
    [
        (lambda text: text, _WANTED, ""),
        (lambda text: text, "tiny-dep==1.1\n", "its input has changed since it was written"),
        (lambda text: text.replace(b"2.5.1", b"2.5.2"), _WANTED, "it was edited by hand"),
        (lambda text: text + b"\xff\xfe\n", _WANTED, "it was edited by hand"),
        (
            *(lambda text: text + b"third-dep==3.0\n", _WANTED),
            "these packages have no hash: third-dep==3.0",
        ),
    ],
    ids=("fresh", "other input", "edited", "no text", "no hash"),
)
def test_finds_fault(change: Callable[[bytes], bytes], wanted: str, fault: str, lock: Path) -> None:
    lock.write_bytes(change(lock.read_bytes()))

    faults = faults_of_lock(lock, wanted)

    assert fault in faults if fault else faults == []


def test_reports_what_writes_it(lock: Path) -> None:
    assert lock.read_text().startswith("# Written by `nox -s lock -- tiny`; don't edit.\n")


def test_sees_missing_lock(tmp_path: Path) -> None:
    assert faults_of_lock(tmp_path / "none.lock", _WANTED) == ["it is missing"]


def test_sees_line_that_is_no_requirement(lock: Path) -> None:
    lock.write_text(lock.read_text() + "<<<<<<< ours\n")

    assert [fault.split(":")[0] for fault in faults_of_lock(lock, _WANTED)] == [
        "it was edited by hand",
        "a line of it is not a requirement",
    ]


@pytest.mark.parametrize(
    "line",
    [
        f"evil @ https://example.invalid/evil-1.0-py3-none-any.whl --hash=sha256:{_HASHES[0]}",
        f"tiny-dep==1.0 --hash=sha256:{_HASHES[0]} --index-url https://example.invalid",
        f"tiny-dep==1.0 --index-url=https://example.invalid --hash=sha256:{_HASHES[0]}",
        f"# a comment \\\n--index-url https://example.invalid --hash=sha256:{_HASHES[0]}",
        f"tiny-dep==1.0 \\\n# why\n--hash=sha256:{_HASHES[0]}",
        f"tiny-dep>=1.0 --hash=sha256:{_HASHES[0]}",
        f"tiny-dep==1.* --hash=sha256:{_HASHES[0]}",
        "--extra-index-url https://example.invalid",
        "-r other.lock",
        "./evil-1.0-py3-none-any.whl",
    ],
)
def test_refuses_what_is_no_package_with_hashes(line: str, lock: Path) -> None:
    lock.write_text(
        render(_BODY, input_text=_WANTED, command="nox", cooldown="2026-01-01") + f"{line}\n"
    )

    [fault] = faults_of_lock(lock, _WANTED)[1:]
    with pytest.raises(LockError):
        check_pins(lock)

    assert fault.startswith(("a line of it is not a requirement", "these packages have no hash"))


def test_sees_text_that_is_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "tiny.lock"
    path.write_text("tiny-dep==1.0\n")

    assert len(faults_of_lock(path, _WANTED)) == 3


def test_reads_pins_with_markers_and_hashes(lock: Path) -> None:
    first, second = read_pins(lock)

    assert (first.requirement.name, first.version, first.hashes) == ("tiny-dep", "1.0", _HASHES)
    assert str(first.requirement.marker) == 'python_full_version >= "3.10"'
    assert (second.requirement.name, second.hashes) == ("other-dep", _HASHES[:1])


@pytest.mark.parametrize("pythons", [("3.12", "3.14t"), ()])
def test_states_pythons_of_framework(tmp_path: Path, pythons: tuple[str, ...]) -> None:
    path = tmp_path / "tiny.lock"
    header = {"input_text": _WANTED, "command": "nox", "cooldown": "2026-01-01"}
    path.write_text(render(_BODY, **header, pythons=pythons))

    assert pythons_of_lock(path) == pythons
    assert faults_of_lock(path, _WANTED) == []


def test_knows_no_pythons_without_lock(tmp_path: Path) -> None:
    assert pythons_of_lock(tmp_path / "none.lock") == ()


@pytest.mark.parametrize(("name", "version"), [("other-dep", "2.5.1"), ("none", None)])
def test_finds_pinned_version(lock: Path, name: str, version: str | None) -> None:
    assert pinned_version(lock, name) == version


def test_finds_no_version_without_lock(tmp_path: Path) -> None:
    assert pinned_version(tmp_path / "none.lock", "tiny-dep") is None


def test_reads_input_without_comments_in_order(tmp_path: Path) -> None:
    source = tmp_path / "tiny.in"
    source.write_text("# why\nninja\n\nbuild  # the frontend\n")

    assert read_input(source) == "build\nninja\n"


def test_reads_included_input(tmp_path: Path) -> None:
    (tmp_path / "engine.in").write_text("rich\n")
    (tmp_path / "dev.in").write_text("-r engine.in\nmypy\n")

    assert read_input(tmp_path / "dev.in") == "mypy\nrich\n"


def test_names_input_that_includes_itself(tmp_path: Path) -> None:
    (tmp_path / "one.in").write_text("-r two.in\n")
    (tmp_path / "two.in").write_text("-r one.in\n")

    with pytest.raises(LockError) as caught:
        read_input(tmp_path / "one.in")

    assert caught.value.why == "one.in includes two.in includes one.in"


@pytest.mark.parametrize(
    ("pin", "cuda"),
    [
        ("cuda-toolkit==13.2.2", "13.2"),
        ("nvidia-cuda-runtime-cu12==12.8.90", "12.8"),
        ("numpy==2.0", ""),
    ],
)
def test_reads_cuda_from_lock(tmp_path: Path, pin: str, cuda: str) -> None:
    (tmp_path / "x.lock").write_text(f"torch==2.0\n{pin} ; sys_platform == 'linux'\n")

    assert cuda_of_lock(tmp_path / "x.lock") == cuda


def test_lock_that_is_missing_reports_nothing(tmp_path: Path) -> None:
    assert cuda_of_lock(tmp_path / "x.lock") == ""
