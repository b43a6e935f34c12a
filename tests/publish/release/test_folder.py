"""The folder of a release: complete or not there, and an index that installers read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuwheel.base.errors import WheelIndexError
from cuwheel.base.formats.wheel.publication import statement_of
from cuwheel.base.system import process
from cuwheel.base.system.files import sha256_of_file
from cuwheel.publish.index.site import SiteRequest, write_site, yank_in_site
from cuwheel.publish.release import folder as module
from cuwheel.publish.release.record import read_releases
from tests.support.publish.releases import Project

_BUILD = "tiny-130-cp312"
_AWS_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # of AWS's documentation
_WITH_PASSWORD = "https://me:secret@host.invalid/x.tar.gz"


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def add_build_log(project: Project, wheel: Path, text: str) -> None:
    """What a build leaves: its record next to the wheels, its log in the work folder."""
    record = project.dist / ".cuwheel" / f"{_BUILD}.json"
    record.parent.mkdir()
    record.write_text(json.dumps({"summary": {"sha256": sha256_of_file(wheel)}}))
    log = project.folder / "work" / _BUILD / "logs" / "build.log"
    log.parent.mkdir(parents=True)
    log.write_text(text)


def test_holds_wheel_and_all_about_it(project: Project) -> None:
    wheel = project.add()
    project.measure(wheel)
    add_build_log(project, wheel, "running build\n")

    result = project.publish()

    assert names(result.folder) == {
        *(f"{wheel.name}{suffix}" for suffix in ("", ".metadata", ".provenance.json")),
        f"logs/{_BUILD}.log",
        f"records/{wheel.name}.perf.json",
        *("SHA256SUMS", "notes.md", "release.json"),
    }
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=result.folder, check=True)
    assert read_releases(project.site) == (result.release,)


def test_dry_run_writes_nothing(project: Project) -> None:
    project.add()
    before = names(project.folder)

    result = project.plan()

    assert result.state == "planned"
    written = names(project.folder) - before
    assert [name for name in written if not name.startswith("cache/")] == []


def test_second_release_of_a_day_holds_what_is_new(project: Project) -> None:
    project.add("1.0")
    first = project.publish()
    project.add("2.0")

    second = project.publish()

    assert second.release.tag == f"{first.release.tag}.1"
    assert second.release.previous == first.release.tag
    assert [wheel.entry.name for wheel in second.release.wheels] == ["toy-2.0-py3-none-any.whl"]
    page = (project.site / "simple" / "toy" / "index.html").read_text()
    assert "toy-1.0-py3" in page
    assert "toy-2.0-py3" in page


def test_same_again_changes_nothing(project: Project) -> None:
    project.add()
    project.publish()
    before = {name: (project.site / name).read_bytes() for name in names(project.site)}

    again = project.publish()

    after = {name: (project.site / name).read_bytes() for name in names(project.site)}
    assert (again.state, after) == ("nothing new", before)


def test_wheel_of_release_and_site_are_one_file(project: Project) -> None:
    wheel = project.add()

    result = project.publish()

    assert (project.site / "files" / wheel.name).samefile(result.folder / wheel.name)
    assert not (project.site / "files" / wheel.name).samefile(wheel)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("last", ["_checksums", "publish"])
def test_killed_release_is_not_there(
    last: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.add()

    with monkeypatch.context() as patched:
        patched.setattr(module, last, interrupt)
        with pytest.raises(KeyboardInterrupt):
            project.publish()

    assert list((project.site / "releases").iterdir()) == []
    assert project.publish().state == "published"


def test_what_a_kill_leaves_is_removed(project: Project) -> None:
    project.add()
    left = project.site / "releases" / ".v2026-11-20.half.cuwheel-part"
    left.mkdir(parents=True)
    (left / "toy.whl").write_bytes(b"half")
    (project.site / "releases" / ".vscode").mkdir()

    result = project.publish()

    left_over = {path.name for path in (project.site / "releases").iterdir()}
    assert left_over == {".vscode", result.release.tag}


def test_index_follows_where_it_was_interrupted(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = project.add()

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_site", interrupt)
        with pytest.raises(KeyboardInterrupt):
            project.publish()

    assert project.publish().state == "nothing new"
    assert (project.site / "files" / wheel.name).is_file()


def test_index_takes_up_a_release_that_was_interrupted_before_the_last(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = [project.add("1.0")]
    with monkeypatch.context() as patched:
        patched.setattr(module, "write_site", interrupt)
        with pytest.raises(KeyboardInterrupt):
            project.publish()
    wheels.append(project.add("2.0"))

    assert project.publish().state == "published"

    page = (project.site / "simple" / "toy" / "index.html").read_text()
    assert [wheel.name in page for wheel in wheels] == [True, True]


def test_release_is_on_the_disk_before_it_has_its_name(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = project.add()
    synced: set[Path] = set()
    monkeypatch.setattr(
        os, "fsync", lambda number: synced.add(Path(f"/proc/self/fd/{number}").readlink())
    )

    result = project.publish()

    aside = {path.name for path in synced if path.parent.name.startswith(f".{result.release.tag}.")}
    assert {wheel.name, "release.json", "notes.md", "SHA256SUMS"} <= aside


def test_wheel_that_changes_meanwhile_is_not_released(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = project.add()

    def change(_: object) -> None:
        wheel.write_bytes(b"other")

    monkeypatch.setattr(module, "remove_tree", change)
    (project.site / "releases" / ".v2026-11-20.half.cuwheel-part").mkdir(parents=True)

    with pytest.raises(WheelIndexError, match="changed while it was being published"):
        project.publish()


def test_logs_name_no_folder_of_this_machine(project: Project) -> None:
    wheel = project.add()
    home = Path.home()
    text = (
        f"g++ {project.folder}/work/x.o -I{home}/.pyenv/include https://me:secret@host/x\x1b[2J\n"
    )
    add_build_log(project, wheel, text)

    result = project.publish()

    [log] = result.folder.glob("logs/*")
    shown = "g++ <work>/x.o -I~/.pyenv/include https://host/x\n"
    assert log.read_text() == shown
    everything = b"".join((result.folder / name).read_bytes() for name in names(result.folder))
    assert str(project.folder).encode() not in everything


def test_masks_secrets_and_shows_what(project: Project) -> None:
    wheel = project.add()
    add_build_log(project, wheel, f"export AWS_SECRET_ACCESS_KEY={_AWS_KEY}\nrunning build\n")

    result = project.publish()

    everything = b"".join((result.folder / name).read_bytes() for name in names(result.folder))
    assert _AWS_KEY.encode() not in everything
    assert b"running build" in everything
    assert "## Masked\n" in (result.folder / "notes.md").read_text()


@pytest.mark.parametrize("is_site", [False, True])
def test_refuses_statement_with_a_password(project: Project, *, is_site: bool) -> None:
    wheel = project.add()
    statement = statement_of(wheel)
    statement.write_text(statement.read_text().replace("{", f'{{"x": "{_WITH_PASSWORD}", ', 1))
    request = SiteRequest(
        folders=(project.dist,), site=project.site, cache=project.folder / "cache"
    )

    with pytest.raises(WheelIndexError, match="would publish a secret"):
        write_site(request) if is_site else project.publish()

    assert not list(project.site.rglob("*.whl"))


def test_masks_reason_why_a_wheel_is_withdrawn(project: Project) -> None:
    wheel = project.add()
    (project.dist / "yanked.json").write_text(f'{{"{wheel.name}": "see {_WITH_PASSWORD}"}}')
    request = SiteRequest(folders=(project.dist,), site=project.site, cache=project.folder)

    write_site(request)

    everything = b"".join(path.read_bytes() for path in project.site.rglob("*") if path.is_file())
    assert b"host.invalid" in everything
    assert b"me:secret" not in everything


def test_withdrawn_wheel_stays_withdrawn(project: Project) -> None:
    wheel = project.add()
    project.publish()
    request = SiteRequest(folders=(), site=project.site, cache=project.folder / "cache")
    yank_in_site(request, {wheel.name: "wrong on sm_120"})
    project.add("2.0")

    result = project.publish()
    project.publish()

    assert result.release.withdrawn == ((wheel.name, "wrong on sm_120"),)
    assert f"- `{wheel.name}`: wrong on sm\\_120" in (result.folder / "notes.md").read_text()
    assert "wrong on sm_120" in (project.site / "simple" / "toy" / "index.html").read_text()


def install(program: list[str | Path], target: Path, *words: str) -> process.Finished:
    environment = {"PATH": os.defpath, "HOME": str(target.parent), "PIP_CONFIG_FILE": os.devnull}
    return process.run(
        [*program, "install", "--target", target, *words, "toy"], env=environment, check=False
    )


@pytest.mark.parametrize("name", ["pip", "uv"])
def test_installs_from_the_folder(name: str, project: Project, tmp_path: Path) -> None:
    project.add("1.0+cu130")
    project.publish()
    index = (project.site / "cu130" / "simple").as_uri()
    uv: list[str | Path] = [Path(sys.executable).with_name("uv"), "pip"]
    programs: dict[str, tuple[list[str | Path], tuple[str, ...]]] = {
        "pip": ([sys.executable, "-m", "pip"], ("--no-cache-dir", "--disable-pip-version-check")),
        "uv": (uv, ("--no-cache", "--no-config", "--python", sys.executable)),
    }
    program, words = programs[name]

    done = install(program, tmp_path / "out", "--index-url", index, *words)

    assert (tmp_path / "out" / "toy.py").is_file(), done.output


def test_pages_for_wheels_at_the_releases_of_github(project: Project) -> None:
    """Each wheel stays at the address of its own release, also from a machine that knows none."""
    base = "https://github.com/me/it/releases/download"
    project.add("1.0+cu130")
    first = project.publish(base_url=base).release.tag
    project.add("2.0+cu130")

    second = project.publish(base_url=base, cache=project.folder / "other cache").release.tag

    page = (project.site / "simple" / "toy" / "index.html").read_text()
    assert f'href="{base}/{first}/toy-1.0%2Bcu130-py3-none-any.whl#sha256=' in page
    assert f'href="{base}/{second}/toy-2.0%2Bcu130-py3-none-any.whl#sha256=' in page
    people = (project.site / "packages" / "toy" / "index.html").read_text()
    assert f"{base}/{first}/toy-1.0%2Bcu130-py3-none-any.whl" in people
    assert not (project.site / "files").exists()


def test_pages_stay_where_the_last_release_is_a_record_alone(project: Project) -> None:
    """As on a machine of GitHub Actions, which gets no wheel of a release that is there."""
    base = "https://github.com/me/it/releases/download"
    wheel = project.add("1.0+cu130")
    result = project.publish(base_url=base)
    (result.folder / wheel.name).unlink()

    again = project.publish(base_url=base, cache=project.folder / "other cache")

    page = (project.site / "simple" / "toy" / "index.html").read_text()
    assert again.state == "nothing new"
    assert f"{base}/{result.release.tag}/toy-1.0%2Bcu130-py3-none-any.whl#sha256=" in page
