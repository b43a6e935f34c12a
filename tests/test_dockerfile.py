"""The devcontainer is made of the Dockerfile: what it names there has to be there."""

from __future__ import annotations

import json
import re

from cuwheel.paths import ROOT

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
