"""The session `pick` as a person runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.errors import DownloadError, FileAccessError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.cli.commands.pick import pick_parser
from cuwheel.cli.dispatch import run_command
from cuwheel.cli.picking import get_command
from tests.support.check.stacks import WheelIndex
from tests.support.documents import read_document
from tests.support.packages.toy_wheel import add_wheel
from tests.support.servers.http import Site, serving

PAPER = "python=3.12,platform=x86_64"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    return add_wheel(tmp_path / "dist").parent


def pick(*words: str) -> int:
    return run_command("pick", words, Console())


def test_shows_by_its_status_whether_one_fits(dist: Path) -> None:
    here = ("--index", str(dist), "--for", PAPER)

    assert pick("toy", *here) == 0
    assert pick("toy>1", *here) == 1


def test_prints_data(dist: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pick("toy", "--index", str(dist), "--for", PAPER, "--json")

    data = read_document(capsys.readouterr().out, "pick")

    [wheel] = dist.glob("*.whl")
    assert data["wheel"]["name"] == wheel.name
    assert data["commands"]["uv"].endswith(f"#sha256={data['wheel']['sha256']}'")


def test_uses_configured_list(
    dist: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUWHEEL_INDEXES", dist.as_uri())
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", (dist / "simple").as_uri())

    assert pick("toy", "--for", PAPER, "--quiet") == 0
    assert "toy-1.0" in capsys.readouterr().out


def test_shows_which_entry_of_the_variable_is_not_there(
    dist: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lost = tmp_path / "lost"
    monkeypatch.setenv("CUWHEEL_INDEXES", f"{dist} {lost}")
    monkeypatch.setenv("PIP_INDEX_URL", (dist / "simple").as_uri())

    assert pick("toy", "--for", PAPER, "--quiet") == 0
    output = " ".join(capsys.readouterr().err.split())
    assert f"CUWHEEL_INDEXES names {lost} (entry 2 of 2), a folder that doesn't exist" in output


def test_names_recipe_where_none_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "simple" / "flash-attn" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text('<a href="flash_attn-2.8.3.tar.gz">flash_attn-2.8.3.tar.gz</a>')
    words = ("--index", str(tmp_path / "simple"), "--for", f"{PAPER},cuda=13.0")

    assert pick("flash-attn", *words) == 1
    output = capsys.readouterr().out
    assert "flash_attn-2.8.3.tar.gz exists" in output
    assert "`nox -s build-flash-attn-130`" in output


def test_names_recipe_of_a_wheel_with_another_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "simple" / "jax-finufft-cuda13x" / "index.html"
    page.parent.mkdir(parents=True)
    name = "jax_finufft_cuda13x-1.0-cp38-cp38-win_amd64.whl"
    page.write_text(f'<a href="{name}">{name}</a>')

    pick("jax-finufft-cuda13x", "--index", str(tmp_path / "simple"), "--for", PAPER)

    assert "`nox -s build-jax-finufft-130`" in capsys.readouterr().out


def test_names_addresses_that_have_nothing(tmp_path: Path) -> None:
    with pytest.raises(DownloadError) as caught:
        pick("toy", "--index", str(tmp_path), "--for", PAPER)

    assert "has no toy" in caught.value.why
    assert "--index ADDRESS" in caught.value.fix


@pytest.mark.parametrize(
    ("status", "fix"), [(401, "USER:PASSWORD"), (403, "USER:PASSWORD"), (500, "try again")]
)
def test_reports_that_no_index_answered(
    status: int, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with (
        serving(Site(statuses=[status] * 99)) as site,
        pytest.raises(DownloadError, match="no index could be queried for toy") as caught,
    ):
        pick("toy", "--index", site.url("/simple/"), "--for", PAPER)
    with pytest.raises(DownloadError, match="no index that could be queried has toy"):
        pick("toy", "--index", site.url("/simple/"), "--index", str(tmp_path), "--for", PAPER)

    assert f"answered {status}" in caught.value.why
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("toy @ https://example.org/x.whl",), "more than a package"),
        (("toy; python_version > '3'",), "more than a package"),
        (("no name",), "not a package name"),
        (("toy", "--for", PAPER, "--index", "/nowhere/x"), "/nowhere/x doesn't exist"),
        (
            ("toy", "--for", PAPER, "--index", "file:///nowhere/x"),
            "/nowhere/x doesn't exist",
        ),
    ],
)
def test_refuses_what_makes_no_sense(words: tuple[str, ...], output: str) -> None:
    with pytest.raises(UsageError, match=output):
        pick(*words)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WheelIndex]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Site()) as site:
        index = WheelIndex(folder=tmp_path / "wheels", site=site)
        index.add_torch("2.12.0", "2.11.0")
        index.add("fast", "1.0+cu130torch2.11")
        index.add("fast", "1.0+cu130torch2.12")
        index.add_sdist("flash-attn", "2.8.3")
        yield index


STACK = "arch=90,glibc=2.36,driver=580.95.05,platform=x86_64"


def test_names_what_a_stack_lacks(index: WheelIndex, capsys: pytest.CaptureFixture[str]) -> None:
    assert pick("fast", "flash-attn", "--index", index.url, "--for", STACK, "--json") == 1

    data = read_document(capsys.readouterr().out, "stack")
    assert (data["stack"]["python"], data["stack"]["torch"]) == ("3.12", "2.11.0")
    [missing] = data["stack"]["missing"]
    assert (missing["project"], missing["sdist"]) == ("flash-attn", "flash_attn-2.8.3.tar.gz")
    assert "of memory for each parallel compile" in missing["advice"]


def test_keeps_commands_on_one_line(index: WheelIndex, capsys: pytest.CaptureFixture[str]) -> None:
    pick("fast", "flash-attn", "--index", index.url, "--for", STACK)

    lines = capsys.readouterr().out.splitlines()
    assert any("`nox -s build-flash-attn-130 -- --arch 90 --python 3.12`" in line for line in lines)
    assert all(line.count("`") % 2 == 0 for line in lines)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("requirements.txt", "# these\n--extra-index-url {index}\nfast>=1  # a note\nflash-attn"),
        ("more.txt", "-r first.txt\nflash_attn\n"),
        (
            "pyproject.toml",
            "[project]\ndependencies = ['fast', 'Flash.Attn; python_version > \"3\"']",
        ),
    ],
)
def test_reads_requirements_of_a_file(
    name: str, content: str, index: WheelIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "first.txt").write_text("fast\n")
    (tmp_path / name).write_text(content.format(index=index.url))
    words = ("--index", index.url, "--for", STACK, "--json")

    by_name, by_option = (
        pick(str(tmp_path / name), *words),
        pick("-r", str(tmp_path / name), *words),
    )

    first, second = capsys.readouterr().out.splitlines()
    assert (by_name, by_option) == (1, 1)
    data = read_document(first, "stack")
    assert [text.partition(">")[0] for text in data["requirements"]] == ["fast", "flash-attn"]
    assert read_document(second, "stack") == data


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-e .", "has -e, which isn't supported"),
        ("x @ https://example.org/x.whl", "has x with an address"),
        ("no name", "is no requirement of a release"),
        ("x y https://me:pass@host/", 'has "x y https://host/"'),
    ],
)
def test_refuses_lines_that_are_no_releases(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(line)

    with pytest.raises(UsageError, match=message):
        pick("-r", str(tmp_path / "requirements.txt"), "--for", STACK)


def test_refuses_names_that_are_no_lock(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not the name of a lock"):
        pick("fast", "--for", STACK, "--lock", str(tmp_path / "lock.toml"))


@pytest.mark.parametrize("python", ["3.14t", "pypy3.10"])
def test_refuses_stack_for_other_pythons(python: str, index: WheelIndex) -> None:
    words = ("--index", index.url, "--for", f"python={python},{STACK}")

    with pytest.raises(UsageError, match="several packages can't be chosen"):
        pick("fast", "flash-attn", *words)


def test_refuses_nothing() -> None:
    with pytest.raises(UsageError, match="no package is named"):
        pick()


def test_shows_no_password_of_an_index() -> None:
    words = ("fast", "--index", "https://me:pass@host/simple/?token=pass", "--index", "wheels@2")
    command = get_command(pick_parser().parse_args(words))

    assert command.endswith("get -- fast --index https://host/simple/ --index wheels@2")


@pytest.mark.parametrize("text", ["fast @ https://me:pass@host/fast.whl", "fast https://me:pass@h"])
def test_shows_no_password_of_a_name(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        pick(text)

    assert "pass" not in f"{caught.value.what} {caught.value.why} {caught.value.fix}"


@pytest.mark.parametrize("option", ["--lock", "--for"])
def test_silent_index_is_no_conflict_of_wheels(
    option: str, index: WheelIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installer's resolver can't read where the wheel's requirement may be."""
    index.add("needy", "1.0", "elsewhere")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    words = ("--lock", str(tmp_path / "pylock.toml")) if option == "--lock" else ("fast",)

    with pytest.raises(DownloadError) as caught:
        pick("needy", *words, "--index", index.url, "--for", f"python=3.12,{STACK}")

    assert "needy" in caught.value.what
    assert "127.0.0.1:9" in caught.value.why
    assert not (tmp_path / "pylock.toml").exists()


def test_checks_the_place_of_a_lock_first(index: WheelIndex) -> None:
    with pytest.raises(FileAccessError) as caught:
        pick("fast", "--index", index.url, "--for", STACK, "--lock", "/proc/pylock.toml")

    assert caught.value.why.startswith("--lock names it")


@pytest.mark.parametrize("address", ["ftp://host/simple/", "s3://bucket/wheels"])
def test_refuses_addresses_that_are_not_read(address: str) -> None:
    with pytest.raises(UsageError, match="can't be read"):
        pick("toy", "--index", address, "--for", PAPER)


def test_names_the_versions_that_no_index_has(
    index: WheelIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    pick("fast==99", "flash-attn", "--index", index.url, "--for", STACK)

    assert "no index has a release ==99 of it" in " ".join(capsys.readouterr().out.split())
