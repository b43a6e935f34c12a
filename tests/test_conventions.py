"""What a public repository is expected to have, and that it says one thing everywhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import editorconfig
import pytest
import tomli
import yaml

from cuwheel.base.paths import ROOT
from cuwheel.build.locks.lock_jobs import COOLDOWN
from cuwheel.cli.reference.addresses import (
    PAGES,
    UNDECIDED_CONTACT,
    UNDECIDED_REPOSITORY,
    with_addresses,
)
from cuwheel.version import __version__
from tests.support.lint.linters import commands_of_lint

TRACKED = [
    Path(name)
    for name in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    if name and (ROOT / name).is_file()
]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
RELEASE = r"\[(?:Unreleased|\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d(?: \[YANKED)?)\]?"
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
BAD = {
    "vendor.citation-file-format": ("CITATION.cff", "title: x\n"),
    "vendor.dependabot": (".github/dependabot.yml", "version: 2\nupdates: []\nsurprise: 1\n"),
    "vendor.github-issue-config": (".github/ISSUE_TEMPLATE/config.yml", "contact_links: 1\n"),
    "vendor.github-issue-forms": (".github/ISSUE_TEMPLATE/form.yml", "name: x\nbody: []\n"),
    "validate-config": (".pre-commit-config.yaml", "repos: 1\n"),
    "validate-manifest": (".pre-commit-hooks.yaml", "- id: x\n"),
}


@pytest.mark.parametrize("program", BAD)
def test_lint_refuses_a_bad_one(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, text = BAD[program]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    [command] = [one for one in commands_of_lint(tmp_path, monkeypatch) if program in one]

    done = subprocess.run([sys.executable, *command], check=False, capture_output=True)

    assert done.returncode != 0
    assert path.name.encode() in done.stdout + done.stderr


def test_form_of_a_failed_build_asks_for_explain_and_diagnose() -> None:
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "build-failed.yml").read_text())

    needed = [one["id"] for one in form["body"] if one.get("validations", {}).get("required")]
    assert {"explain", "diagnose", "log", "version"} <= set(needed)


def test_no_page_names_an_address_of_its_own() -> None:
    named = re.compile(rf"{re.escape(UNDECIDED_REPOSITORY)}|[\w.]+@repository\.invalid")
    text = {
        path.as_posix(): content
        for path in TRACKED
        if path.suffix in {".cff", ".md", ".yml", ".yaml", ".toml"}
        and "repository.invalid" in (content := (ROOT / path).read_text())
    }

    assert set(text) <= set(PAGES)
    for content in text.values():
        assert "repository.invalid" not in named.sub("", content)
        assert set(named.findall(content)) <= {UNDECIDED_REPOSITORY, UNDECIDED_CONTACT}


def test_decided_addresses_reach_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuwheel.cli.reference.addresses.REPOSITORY", "https://example.org/c")
    monkeypatch.setattr("cuwheel.cli.reference.addresses.CONTACT", "we@example.org")

    for name in PAGES:
        text = with_addresses((ROOT / name).read_text())
        assert "repository.invalid" not in text
        assert "example.org" in text


def test_one_licence_and_one_version_everywhere() -> None:
    project = tomli.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())

    assert project["license"] == citation["license"] == "Apache-2.0"
    assert (
        "Apache License\n                           Version 2.0" in (ROOT / "LICENSE").read_text()
    )
    assert citation["version"] == __version__


def test_what_other_repositories_run_names_its_licence() -> None:
    files = [path for path in TRACKED if path.match("ci/*/action.yml") or path.match("ci/*/*.sh")]

    assert len(files) >= 4
    for path in files:
        assert "# SPDX-License-Identifier: Apache-2.0" in (ROOT / path).read_text().splitlines()[:2]


def test_changelog_keeps_its_form() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    releases = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
    kinds = [line.removeprefix("### ") for line in lines if line.startswith("### ")]

    assert [one for one in releases if not re.fullmatch(RELEASE, one)] == []
    assert set(kinds) <= KINDS
    first = next(line for line in lines[lines.index(f"## {releases[0]}") + 1 :] if line)
    assert first.startswith("### ")


def test_fragments_of_the_changelog_have_a_kind() -> None:
    names = [path.name for path in (ROOT / "changes").iterdir() if path.name != "README.md"]

    form = rf"[a-z0-9-]+\.({'|'.join(map(str.lower, sorted(KINDS)))})\.md"
    assert [name for name in names if not re.fullmatch(form, name)] == []


def test_dependabot_waits_as_long_as_the_locks_and_sees_all_actions() -> None:
    [actions] = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]

    assert actions["cooldown"]["default-days"] == COOLDOWN
    assert [one for one in TRACKED if _uses_actions(one) and not _is_in(one, actions)] == []


def _uses_actions(path: Path) -> bool:
    return path.suffix in {".yml", ".yaml"} and bool(
        re.search(r"^\s*(- )?uses: \w", (ROOT / path).read_text(), re.MULTILINE)
    )


def _is_in(path: Path, update: dict[str, Any]) -> bool:
    """`/` stands for .github/workflows there (dependabot-core, github_actions/file_fetcher.rb)."""
    folders = [one.strip("/") or ".github/workflows" for one in update["directories"]]
    return any(path.parent.match(folder) for folder in folders)


def test_own_hooks_are_commands_of_lint(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no commit passes a hook that CI refuses, and none is held to another tool."""
    lint = [" ".join(one) for one in commands_of_lint(ROOT, monkeypatch)]
    [local] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]

    assert local["repo"] == "local"
    for hook in local["hooks"]:
        _, _, command = hook["entry"].partition(" dev ")
        words = command.split(" --")[0]
        assert not words or any(line.startswith(words) for line in lint), hook["id"]


@pytest.mark.parametrize("kind", ["*.py", "*.md", "*.yml", "*.sh", "*.toml"])
def test_files_are_as_editors_are_told(kind: str) -> None:
    wrong = [str(path) for path in TRACKED if path.match(kind) and not _is_as_told(ROOT / path)]

    assert wrong == []


def _is_as_told(path: Path) -> bool:
    told, content = editorconfig.get_properties(str(path)), path.read_bytes()
    lines = content.split(b"\n")
    ends = told.get("insert_final_newline") != "true" or not content or not lines[-1]
    is_trimmed = told.get("trim_trailing_whitespace") != "true" or not any(
        line != line.rstrip() for line in lines
    )
    return ends and is_trimmed and b"\r\n" not in content


DOCKERFILE = (ROOT / "Dockerfile").read_text()
DEVCONTAINER = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())


def test_devcontainer_takes_what_the_dockerfile_has() -> None:
    build = DEVCONTAINER["build"]

    file = (ROOT / ".devcontainer" / build["dockerfile"]).resolve()
    assert file == ROOT / "Dockerfile"
    assert (ROOT / ".devcontainer" / build["context"]).resolve() == ROOT
    assert f" AS {build['target']}\n" in DOCKERFILE
    assert set(build["args"]) == set(re.findall(r"^ARG (\w+)$", DOCKERFILE, re.MULTILINE))


def test_volume_lies_where_the_user_may_write() -> None:
    """A new volume takes owner and content of the folder that the image has there."""
    [mount] = DEVCONTAINER["mounts"]
    target = dict(part.split("=", 1) for part in mount.split(","))["target"]

    [made] = re.findall(r"install --directory --owner (\w+) .*?\n\s+(.*)\n", DOCKERFILE)
    assert made[0] == DEVCONTAINER["remoteUser"]
    assert target in made[1].split()


def test_base_has_no_default() -> None:
    """A digest that nobody has looked at is worse than none."""
    assert re.search(r"^ARG BASE\nFROM \$\{BASE\} AS", DOCKERFILE, re.MULTILINE)


def test_image_gets_what_the_engine_needs() -> None:
    left_out = {
        line.removeprefix("**/")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    }

    assert not left_out & {"cuwheel", "envs", "noxfile.py", "patches", "recipes"}
