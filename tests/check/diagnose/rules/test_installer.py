"""Commands that change an environment."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cuwheel.base.formats.wheel.archive import unpack_wheel
from cuwheel.check.diagnose.diagnose import DiagnoseOptions, diagnose
from cuwheel.check.diagnose.facts.environment import ChosenPython, read_environment
from cuwheel.check.diagnose.rules.installer import (
    Installer,
    installer_of,
    same_release,
    where_from,
)
from tests.check.diagnose.samples import make_distribution
from tests.support.check.environments import CALLERS_PATH, Env, anchors, look_into, verdict_on
from tests.support.factories import write_wheel

_FROM_FILE = f"torch @ {Path(__file__).as_uri()}"


@pytest.mark.parametrize(
    ("python", "has_pip", "command"),
    [
        ("", True, "python -m pip install 'a>=1'"),
        ("/e/bin/python", True, "/e/bin/python -m pip install 'a>=1'"),
        ("", False, "uv pip install 'a>=1'"),
        ("/my e/python", False, "uv pip install --python '/my e/python' 'a>=1'"),
    ],
)
def test_installs_into_the_environment(python: str, command: str, *, has_pip: bool) -> None:
    assert Installer(python=python, has_pip=has_pip).install("a>=1") == command


@pytest.mark.parametrize(
    ("variables", "requirement", "removed"),
    [
        ({"PIP_TARGET": "/t"}, "a", "PIP_TARGET"),
        ({"PIP_NO_DEPS": "0", "PIP_USER": ""}, "a", ""),
        ({"PIP_CONSTRAINT": "a_b==1\nother"}, "a-b>=2", "PIP_CONSTRAINT"),
        ({"PIP_CONSTRAINT": "# none\na-b<2"}, "a_b==2.*", "PIP_CONSTRAINT"),
        ({"PIP_CONSTRAINT": "a-b==2\na-b>=1"}, "a-b>=2", ""),
        ({"PIP_CONSTRAINT": "a-b<3"}, "a-b>=2", ""),
        ({"UV_CONSTRAINT": "a-b==1"}, "a-b>=2", ""),
    ],
)
def test_installs_without_variables_that_mislead_pip(
    env: Env, variables: dict[str, str], requirement: str, removed: str
) -> None:
    for name, text in variables.items():
        if name.endswith("CONSTRAINT"):
            (env.folder / name).write_text(text)
            variables = {name: str(env.folder / name)}
    env.install("pip")
    installer = installer_of(
        read_environment(env.python, {}), ChosenPython(path=env.python, how=""), variables
    )

    command = installer.install(requirement)

    assert command.partition(str(env.python))[0] == (f"env -u {removed} " if removed else "")
    found = installer.judge_variables(variables, command)
    assert [one.command for one in found] == ([f"unset {removed}"] if removed else [])
    assert {one.level for one in installer.judge_variables(variables, "")} <= {"note"}


@pytest.mark.parametrize(
    ("text", "variables", "words", "levels"),
    [
        ("[install]\ntarget = /t\n", {}, "PIP_CONFIG_FILE=/dev/null", ["warning"]),
        ("[global]\nno-deps = no\nindex-url = https://i\n", {}, "", []),
        (
            "[global]\nno-index = 1\nindex-url = https://i\n",
            {},
            "PIP_CONFIG_FILE=/dev/null PIP_INDEX_URL=https://i",
            ["warning"],
        ),
        ("[global]\nno-index = 1\nfind-links = /usr\n", {}, "", []),
        (
            "[global]\nno-index = 1\nfind-links = /no/wheels\n",
            {},
            "PIP_CONFIG_FILE=/dev/null",
            ["warning"],
        ),
        ("[install]\ntarget = /t\n", {"PIP_CONFIG_FILE": "/dev/null"}, "", []),
        ("[global\n", {}, "PIP_CONFIG_FILE=/dev/null", ["broken"]),
        ("[global]\nconstraint = {0}\n", {}, "PIP_CONFIG_FILE=/dev/null", ["warning"]),
    ],
)
def test_installs_without_files_that_mislead_pip(
    env: Env, text: str, variables: dict[str, str], words: str, levels: list[str]
) -> None:
    (env.folder / "limits").write_text("a==1\n")
    (env.site.parents[2] / "pip.conf").write_text(text.format(env.folder / "limits"))
    env.install("pip")
    chosen = ChosenPython(path=env.python, how="")
    installer = installer_of(read_environment(env.python, {}), chosen, variables)

    command = installer.install("a>=2")

    before = command.partition(str(env.python))[0].split()  # what this machine's files have too
    assert before[:2] == ["env", *words.split()[:1]] if words else not before
    assert {*words.split()} <= {*before}
    assert [one.level for one in installer.judge_variables(variables, command)] == levels


@pytest.mark.parametrize(
    ("text", "levels"), [("offline = true\n", ["note"]), ("offline = 1", []), ("x", ["broken"])]
)
def test_judges_file_of_uv(env: Env, text: str, levels: list[str]) -> None:
    (env.folder / "uv").mkdir()
    (env.folder / "uv/uv.toml").write_text(text)
    variables = {"XDG_CONFIG_HOME": str(env.folder), "PATH": CALLERS_PATH}
    chosen = ChosenPython(path=env.python, how="")
    installer = installer_of(read_environment(env.python, {}), chosen, variables)

    found = installer.judge_variables(variables, "")

    assert [one.level for one in found] == levels
    assert ("UV_NO_CONFIG=1" in installer.install("a")) == bool(levels)


@pytest.mark.parametrize(
    ("has_pip", "command"),
    [(True, "python -m pip uninstall -y a b"), (False, "uv pip uninstall a b")],
)
def test_removes_without_a_prompt(command: str, *, has_pip: bool) -> None:
    assert Installer(python="", has_pip=has_pip).remove(("a", "b")) == command


@pytest.mark.parametrize(
    ("version", "origin", "requirement"),
    [
        ("2.11.0", {}, "torch==2.11.0"),
        ("2.11.0+cpu", {}, ""),
        ("2.11.0+cpu", {"url": Path(__file__).as_uri(), "archive_info": {}}, _FROM_FILE),
        ("2.11.0+cpu", {"url": "file:///gone.whl", "archive_info": {}}, ""),
        ("2.11.0+cpu", {"url": "file:///source", "dir_info": {}}, ""),
    ],
)
def test_names_same_release(
    tmp_path: Path, version: str, origin: dict[str, object], requirement: str
) -> None:
    (tmp_path / "direct_url.json").write_text(json.dumps(origin))

    assert same_release(make_distribution("torch", tmp_path, version=version)) == requirement


@pytest.mark.parametrize(
    ("platform", "requirement"),
    [("linux_x86_64", ""), ("manylinux_2_17_x86_64", "torch==2.11.0")],
)
def test_names_no_release_that_was_built_here(
    platform: str, requirement: str, tmp_path: Path
) -> None:
    (tmp_path / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: cp312-cp312-{platform}\n")
    own = make_distribution("torch", tmp_path, version="2.11.0")

    assert same_release(own) == requirement
    assert bool(where_from(own)) == (requirement == "")


def test_prints_no_command_without_pip_and_uv(env: Env) -> None:
    env.install_torch(requires=("triton",))

    report = look_into(env, PATH="/nowhere")

    assert {verdict.command for verdict in report.verdicts} == {""}
    assert verdict_on(report, "diagnose-versions").fix
    verdict = verdict_on(report, "diagnose-no-installer")
    assert (verdict.level, verdict.cause) == (
        "note",
        "it has no pip, or a damaged one, and uv isn't on PATH",
    )


@pytest.mark.parametrize("is_open", [True, False])
def test_prints_no_command_for_folder_that_cant_be_written(
    env: Env, monkeypatch: pytest.MonkeyPatch, *, is_open: bool
) -> None:
    env.install("pip")
    environment = read_environment(env.python, {})
    monkeypatch.setattr("os.access", lambda *_: is_open)

    installer = installer_of(environment, ChosenPython(path=env.python, how=""), {})

    assert (installer.obstacle is None, bool(installer.install("a"))) == (is_open, is_open)


def test_prints_no_command_for_the_python_of_the_system(env: Env) -> None:
    """A whole Python of its own, as PYTHONHOME has it, with the file of PEP 668."""
    env.install_torch(requires=("triton",))
    home = env.site.parents[2]
    for path in Path(os.__file__).parent.iterdir():
        if path.name not in ("site-packages", "EXTERNALLY-MANAGED"):
            (env.site.parent / path.name).symlink_to(path)
    marker = env.site.parent / "EXTERNALLY-MANAGED"
    marker.write_text("[externally-managed]\n")
    python = os.path.realpath(sys.executable)
    options = DiagnoseOptions(python=python, start=env.folder, project=env.folder)
    environ = {"PATH": CALLERS_PATH, "HOME": str(env.folder), "PYTHONHOME": str(home)}

    report = diagnose(options, environ, ())

    assert {verdict.command for verdict in report.verdicts} == {""}
    verdict = verdict_on(report, "diagnose-no-installer")
    assert verdict.cause.startswith(f"{marker}: ")
    assert verdict.fix.startswith("create an environment ")
    assert "diagnose-no-installer" not in anchors(look_into(env))


@pytest.mark.parametrize(("is_before", "command"), [(True, ""), (False, "'ext<2'")])
def test_installs_over_package_of_a_folder_that_comes_after(
    env: Env, command: str, *, is_before: bool
) -> None:
    """A user's folder after the environment's own loses against what is installed there."""
    env.install("numba", {"numba/__init__.py": b""}, requires=("ext<2",))
    folder = env.folder / "others"
    wheel = write_wheel(
        env.folder / "w", {"ext.py": b""}, name="ext", version="3", tag="py3-none-any"
    )
    unpack_wheel(wheel, folder)
    line = f"import sys; sys.path.insert(0, {str(folder)!r})" if is_before else str(folder)
    (env.site / "others.pth").write_text(f"{line}\n")

    verdict = verdict_on(look_into(env), "diagnose-versions")

    assert verdict.command.rpartition(" ")[2] == command


@pytest.mark.parametrize(
    ("requirements", "is_met"),
    [
        (("a>=1",), True),
        (("a",), True),
        (("a>2",), False),
        (("a[x]",), False),
        (("a>=1", "b"), False),
        (("a===1",), False),
    ],
)
def test_installs_nothing_that_is_installed(requirements: tuple[str, ...], *, is_met: bool) -> None:
    installer = Installer(python="", has_pip=True, installed={"a": "1+cpu", "b": "1"})

    assert (not installer.install(*requirements)) == is_met


@pytest.mark.parametrize(("sees_system", "level"), [("false", "warning"), ("true", "note")])
def test_names_option_with_which_pip_refuses(env: Env, sees_system: str, level: str) -> None:
    env.install("pip")
    folder = env.site.parents[2]
    (folder / "pip.conf").write_text("[install]\nuser = true\n")
    kept = [line for line in (folder / "pyvenv.cfg").read_text().splitlines() if "site" not in line]
    lines = [*kept, f"include-system-site-packages = {sees_system}"]
    (folder / "pyvenv.cfg").write_text("\n".join(lines))

    verdict = verdict_on(look_into(env), "diagnose-variable")

    assert verdict.level == level
    assert ("pip refuses" in verdict.cause) == (level == "warning")


@pytest.mark.parametrize(("free", "level"), [(1 << 20, "broken"), (1 << 30, None)])
def test_names_full_file_system(
    env: Env, monkeypatch: pytest.MonkeyPatch, free: int, level: str | None
) -> None:
    env.install("pip")
    usage = SimpleNamespace(total=1 << 40, free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    chosen = ChosenPython(path=env.python, how="")
    environment = read_environment(env.python, {"PATH": CALLERS_PATH})

    obstacle = installer_of(environment, chosen, {}).obstacle

    assert (obstacle.level if obstacle else None) == level
