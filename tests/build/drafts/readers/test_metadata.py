from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.drafts.readers.metadata import read_metadata
from tests.support.build.drafts import FILES, write_tree

_MIT = "Permission is hereby granted, free of charge, to any person"
_HEAD = "Metadata-Version: 2.1\nName: x\n"


@pytest.mark.parametrize(
    ("lines", "license_text", "value", "where"),
    [
        ("License-Expression: MIT\n", "", "MIT", "PKG-INFO:3, License-Expression"),
        ("License: apache-2.0\n", "", "Apache-2.0", "PKG-INFO:3, License"),
        (
            "License: UNKNOWN\nClassifier: License :: OSI Approved :: MIT License\n",
            "",
            "MIT",
            "PKG-INFO:4, Classifier",
        ),
        (
            "Classifier: License :: OSI Approved :: BSD License\n",
            _MIT,
            "MIT",
            "the text of LICENSE",
        ),
        ("License: see the file\n", "", "", ""),
    ],
)
def test_finds_license(
    lines: str, license_text: str, value: str, where: str, tmp_path: Path
) -> None:
    files = {"PKG-INFO": f"{_HEAD}{lines}\n", "LICENSE": license_text}

    fact = read_metadata(write_tree(tmp_path, files)).license

    assert (fact.value, fact.where) == (value, where)


@pytest.mark.parametrize(
    ("lines", "page"),
    [
        ("Home-page: http://a.invalid\n", "https://a.invalid"),
        (
            "Project-URL: Issues, https://b.invalid\nProject-URL: Source, https://a.invalid\n",
            "https://a.invalid",
        ),
        ("", ""),
    ],
)
def test_finds_homepage(lines: str, page: str, tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"PKG-INFO": f"{_HEAD}{lines}"})

    assert read_metadata(tree).homepage.value == page


@pytest.mark.parametrize(
    ("line", "page"),
    [
        ("[ci](https://github.com/maker/Tiny_Draft/actions/ci.svg)", "maker/Tiny_Draft"),
        ("git clone https://github.com/maker/tiny-draft.git", "maker/tiny-draft"),
        ("a fork of https://github.com/maker/tiny", ""),
        ("https://github.com/maker/tiny-draft-models", ""),
    ],
)
def test_finds_repository_of_the_projects_name(line: str, page: str, tmp_path: Path) -> None:
    tree = write_tree(
        tmp_path, {"PKG-INFO": "Name: tiny-draft\n", "README.md": f"# Tiny\n{line}\n"}
    )

    fact = read_metadata(tree).homepage

    assert fact.value == (f"https://github.com/{page}" if page else "")
    assert fact.where == ("an address in README.md:2" if page else "")


def test_keeps_requirements_that_count_on_linux(tmp_path: Path) -> None:
    lines = (
        "Requires-Dist: numpy>=1.20\n"
        'Requires-Dist: colorama; sys_platform == "win32"\n'
        'Requires-Dist: pytest; extra == "test"\n'
        'Requires-Dist: tomli; python_version < "3.11"\n'
    )
    tree = write_tree(tmp_path, {"PKG-INFO": _HEAD + lines})

    assert read_metadata(tree).requires == ("numpy>=1.20", 'tomli; python_version < "3.11"')


def test_takes_requirements_of_old_setuptools(tmp_path: Path) -> None:
    files = {"PKG-INFO": _HEAD, "x.egg-info/requires.txt": "scipy\n\n[test]\npytest\n"}

    assert read_metadata(write_tree(tmp_path, files)).requires == ("scipy",)


def test_names_licenses_of_what_is_brought_along(tmp_path: Path) -> None:
    files = {**FILES, "third_party/x/LICENSE": _MIT, "y/COPYING": "unknown"}

    fact = read_metadata(write_tree(tmp_path, files)).other_licenses

    assert {(fact.where, fact.value) for fact in fact} == {
        ("third_party/x/LICENSE", "MIT"),
        ("y/COPYING", ""),
    }
