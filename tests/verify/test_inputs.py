"""What a statement names, held to what a checkout has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.build.rebuild_key import digest_of_engine
from cuwheel.errors import OtherInputsError, UsageError
from cuwheel.model.platform import PLATFORMS
from cuwheel.paths import ROOT
from cuwheel.system.files import sha256_of_file
from cuwheel.verify.inputs import (
    check_is_enough,
    differing_inputs,
    refuse_other_inputs,
    target_of,
)
from cuwheel.verify.published import read_published
from cuwheel.wheel.provenance import Material
from tests.support.published import PARAMETERS, publish

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.verify.published import PublishedWheel

_FILES = {
    "recipe recipes/causal_conv1d.py": "recipes/causal_conv1d.py",
    "lock build/causal_conv1d.lock": "envs/build/causal_conv1d.lock",
    "lock cuda130/pypi.lock": "envs/cuda130/pypi.lock",
    "lock envs/engine.lock": "envs/engine.lock",
    "patch 0001-x.patch": "patches/causal_conv1d/0001-x.patch",
    "smoke causal_conv1d.py": "recipes/smoke/causal_conv1d.py",
}
_COMMIT = "c" * 40


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def make_project(folder: Path) -> Path:
    for path in _FILES.values():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    return folder


def materials_of(project: Path) -> tuple[Material, ...]:
    """What a build states that had the files of a project, and this cuwheel."""
    make_project(project)
    return (
        *(
            Material(name=name, sha256=sha256_of_file(project / path))
            for name, path in _FILES.items()
        ),
        Material(name="cuwheel", sha256=digest_of_engine()),
        Material(name="checkout of cuwheel", git_commit=_COMMIT),
        Material(name="source x.tar.gz", sha256="b" * 64),
    )


def published(folder: Path, project: Path, **changes: Any) -> PublishedWheel:
    """A wheel that was built with the files of a project, and this cuwheel."""
    return read_published(publish(folder, **{"materials": materials_of(project), **changes}))


def test_finds_everything_as_it_was(project: Path, tmp_path: Path) -> None:
    theirs = published(tmp_path, project)

    check_is_enough(theirs, None, None)
    assert (target_of(theirs), theirs.commit) == ("causal-conv1d-130", _COMMIT)
    assert differing_inputs(theirs, ROOT, (project, ROOT)) == ()


@pytest.mark.parametrize("path", _FILES.values())
def test_names_the_file_that_is_another(path: str, project: Path, tmp_path: Path) -> None:
    theirs = published(tmp_path, project)
    (project / path).write_text("changed")

    [line] = differing_inputs(theirs, ROOT, (project,))

    assert line.startswith(f"{path}: ")
    assert line.endswith(" here")


def test_names_the_file_that_is_missing(project: Path, tmp_path: Path) -> None:
    theirs = published(tmp_path, project)
    (project / "patches/causal_conv1d/0001-x.patch").unlink()

    [line] = differing_inputs(theirs, ROOT, (project,))

    assert line.endswith("there, nothing here")


def test_names_other_code_of_cuwheel(project: Path, tmp_path: Path) -> None:
    theirs = published(tmp_path, project)
    (tmp_path / "cuwheel" / "stages").mkdir(parents=True)
    (tmp_path / "cuwheel" / "pipeline.py").write_text("")

    [line] = differing_inputs(theirs, tmp_path, (project,))

    assert line.startswith(f"cuwheel's code: {digest_of_engine()[:16]} there")


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"materials": ()}, "the hash of its recipe, the hash of its lock, the hash of cuwheel's"),
        ({"parameters": PARAMETERS[:2]}, "the parameter python"),
    ],
)
def test_refuses_statement_that_is_not_enough(
    changes: dict[str, Any], missing: str, project: Path, tmp_path: Path
) -> None:
    theirs = published(tmp_path, project, **changes)

    with pytest.raises(UsageError) as caught:
        check_is_enough(theirs, None, None)

    assert missing in caught.value.why


def test_source_that_was_given_has_to_be_given(project: Path, tmp_path: Path) -> None:
    given = (*PARAMETERS, ("source", "given with --source"))
    theirs = published(tmp_path, project, parameters=given)

    check_is_enough(theirs, tmp_path, None)
    with pytest.raises(UsageError) as caught:
        check_is_enough(theirs, None, None)

    assert "--source DIR" in caught.value.fix


def test_refusal_names_files_and_commit(project: Path, tmp_path: Path) -> None:
    theirs = published(tmp_path, project)

    refuse_other_inputs(theirs, (), "")
    with pytest.raises(OtherInputsError) as caught:
        refuse_other_inputs(theirs, ("a: 1 there, 2 here",), "nobody has it")

    assert caught.value.why == "a: 1 there, 2 here\nnobody has it"
    assert _COMMIT in caught.value.fix


def test_refuses_commit_that_would_be_an_option(project: Path, tmp_path: Path) -> None:
    bad = (Material(name="checkout of cuwheel", git_commit="--upload-pack=x"),)

    with pytest.raises(UsageError) as caught:
        published(tmp_path, project, materials=bad)

    assert "its checkout is '--upload-pack=x'" in caught.value.why


def test_wheel_for_another_machine_needs_its_root(project: Path, tmp_path: Path) -> None:
    other = next(one for one in PLATFORMS.values() if one.is_foreign)
    stated = (*PARAMETERS, ("platform", other.name))
    theirs = published(tmp_path, project, parameters=stated)

    check_is_enough(theirs, None, tmp_path)
    with pytest.raises(UsageError, match=f"is for {other.machine}") as caught:
        check_is_enough(theirs, None, None)

    assert "--target-root DIR" in caught.value.fix
