from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import DownloadError, UsageError
from cuwheel.build.drafts.upstream import choose_release, releases_of, unpack_upstream
from cuwheel.build.workspace.workspace import Workspace
from tests.support.build.drafts import FILES, Index
from tests.support.factories import make_workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


def test_takes_newest_final_release(index: Index, workspace: Workspace) -> None:
    hashes = [index.add_sdist("tiny", version, FILES) for version in ("1.9", "1.10", "2.0rc1")]
    index.add_file("tiny", "tiny-3.0.tar.gz", attributes='data-yanked="broken"')

    release = choose_release("tiny", releases_of("tiny", workspace))

    assert (release.version, release.sha256, release.is_newest) == ("1.10", hashes[1], True)


def test_takes_release_that_is_requested(index: Index, workspace: Workspace) -> None:
    for version in ("1.0", "2.0"):
        index.add_sdist("tiny", version, FILES)

    release = choose_release("tiny", releases_of("tiny", workspace), "1.0")

    assert (release.version, release.newer) == ("1.0", "2.0 is newer")


def test_takes_newest_with_source(index: Index, workspace: Workspace) -> None:
    index.add_sdist("tiny", "1.0", FILES)
    index.add_file("tiny", "tiny-2.0-py3-none-any.whl")

    release = choose_release("tiny", releases_of("tiny", workspace))

    assert release.version == "1.0"
    assert release.newer == "2.0 is newer, and the index has no source of it"


@pytest.mark.parametrize("tag", ["py3-none-any", "cp312-cp312-manylinux_2_28_x86_64"])
def test_knows_wheel_without_compiled_code(tag: str, index: Index, workspace: Workspace) -> None:
    index.add_sdist("tiny", "1.0", FILES)
    index.add_file("tiny", f"tiny-1.0-{tag}.whl")

    release = choose_release("tiny", releases_of("tiny", workspace))

    assert release.universal == ("tiny-1.0-py3-none-any.whl" if tag == "py3-none-any" else "")


def test_refuses_wheels_alone(index: Index, workspace: Workspace) -> None:
    index.add_file("tiny", "tiny-2.0-py3-none-any.whl")

    with pytest.raises(DownloadError) as caught:
        choose_release("tiny", releases_of("tiny", workspace))

    assert "it has only wheels of all releases; 2.0 is the newest" in caught.value.why
    assert "Archive(" in caught.value.fix


@pytest.mark.parametrize(
    ("wanted", "kind", "words"),
    [("9.9", DownloadError, "its newest are 1.0"), ("x.y", UsageError, "looks like 1.2.3")],
)
def test_refuses_release(
    wanted: str, kind: type[UsageError], words: str, index: Index, workspace: Workspace
) -> None:
    index.add_sdist("tiny", "1.0", FILES)

    with pytest.raises(kind) as caught:
        choose_release("tiny", releases_of("tiny", workspace), wanted)

    assert words in caught.value.why


def test_refuses_file_without_hash(index: Index, workspace: Workspace) -> None:
    folder = index.folder / "tiny"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text('<a href="tiny-1.0.tar.gz">tiny-1.0.tar.gz</a>')

    with pytest.raises(DownloadError) as caught:
        choose_release("tiny", releases_of("tiny", workspace))

    assert "gives no SHA-256" in caught.value.what


def test_distinguishes_unknown_project_from_unreachable_index(
    index: Index, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.folder.mkdir()
    with pytest.raises(DownloadError) as unknown:
        releases_of("tiny", workspace)

    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    with pytest.raises(DownloadError) as unreachable:
        releases_of("tiny", workspace)

    assert [caught.value.is_missing for caught in (unknown, unreachable)] == [True, False]


def test_unpacks_source(index: Index, workspace: Workspace, tmp_path: Path) -> None:
    index.add_sdist("tiny", "1.0", FILES)
    release = choose_release("tiny", releases_of("tiny", workspace))

    tree = unpack_upstream(release, tmp_path / "source", workspace)

    assert (tree / "setup.py").read_text() == FILES["setup.py"]


def test_reports_that_an_index_does_not_answer(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")

    with pytest.raises(DownloadError) as caught:
        releases_of("tiny", workspace)

    assert caught.value.what == "tiny can't be looked up"
    assert "see that the index can be reached" in caught.value.fix
