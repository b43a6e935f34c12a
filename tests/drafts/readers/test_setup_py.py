from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.drafts.readers.setup_py import read_setup
from tests.support.drafted import FILES, write_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuwheel.drafts.readers.finding import Finding


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], tuple[Finding, ...]]:
    """Read a setup.py of this text."""

    def run(text: str) -> tuple[Finding, ...]:
        (tmp_path / "setup.py").write_text(text)
        return read_setup(tmp_path)

    return run


@pytest.mark.parametrize(
    ("line", "name", "default", "wants"),
    [
        ('X = os.getenv("A", "FALSE") == "TRUE"', "A", "FALSE", "TRUE"),
        ('X = os.environ.get("A", "0").lower() in ("1", "true")', "A", "0", "1"),
        ('X = int(os.environ.get("A", "0"))', "A", "0", "1"),
        ('X = os.environ["A"]', "A", "", ""),
        ('X = "A" in os.environ', "A", "", ""),
        ('X = len(os.getenv("A", "80;90").split(";"))', "A", "80;90", ""),
        ('def ask(n, d):\n    return os.getenv(n, d)\nX = ask("A", "1")', "A", "1", ""),
    ],
)
def test_finds_variable(
    line: str, name: str, default: str, wants: str, read: Callable[[str], tuple[Finding, ...]]
) -> None:
    found = [one for one in read(f"import os\n{line}\n") if one.kind == "variable"]

    assert [(one.name, one.default, one.wants) for one in found] == [(name, default, wants)]


def test_says_that_a_name_is_computed(read: Callable[[str], tuple[Finding, ...]]) -> None:
    [found] = read('import os\nX = os.getenv(f"{PREFIX}_ARCHS")\n')

    assert (found.kind, found.where) == ("computed variable", "setup.py:2")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("urllib.request.urlretrieve(url, name)", "urllib.request.urlretrieve(url, name)"),
        ("requests.get(url)", "requests.get(url)"),
        ('subprocess.run(["git", "clone", url])', "git clone …"),
        ('os.system("wget https://example.invalid/x")', "wget https://example.invalid/x"),
    ],
)
def test_finds_download(line: str, name: str, read: Callable[[str], tuple[Finding, ...]]) -> None:
    found = [one for one in read(f"import os\n{line}\n") if one.kind == "download"]

    assert [(one.name, one.where) for one in found] == [(name, "setup.py:2")]


def test_finds_submodule_that_the_source_lacks(
    tmp_path: Path, read: Callable[[str], tuple[Finding, ...]]
) -> None:
    (tmp_path / "csrc" / "there").mkdir(parents=True)
    (tmp_path / "csrc" / "there" / "file.h").touch()
    lines = [
        f'subprocess.run(["git", "submodule", "update", "--init", "csrc/{name}"])'
        for name in ("there", "gone")
    ]

    found = [one.name for one in read("\n".join(lines)) if one.kind == "missing"]

    assert found == ["csrc/gone"]


def test_reads_package_whole(tmp_path: Path) -> None:
    found = read_setup(write_tree(tmp_path, FILES))

    assert {(one.kind, one.name, one.where) for one in found} == {
        ("import", "setuptools", "setup.py:4"),
        ("import", "torch", "setup.py:5"),
        ("variable", "TINY_FORCE_BUILD", "setup.py:7"),
        ("variable", "TINY_LINE_INFO", "setup.py:8"),
        ("variable", "TINY_CUDA_ARCHS", "setup.py:9"),
        ("flag", "-lineinfo", "setup.py:13"),
        (
            "download",
            "urllib.request.urlretrieve('https://example.invalid/tiny.whl', 'tiny.whl')",
            "setup.py:15",
        ),
        ("extension", "tiny_draft_cuda", "setup.py:20"),
        ("library", "cublas", "setup.py:23"),
        ("missing", "csrc/lost.cu", "setup.py:22"),
        ("no ninja", "use_ninja=False", "setup.py:27"),
    }


def test_knows_condition_of_a_fact(read: Callable[[str], tuple[Finding, ...]]) -> None:
    found = read('if HIP:\n    a = "-lineinfo"\nelse:\n    b = "-lineinfo"\n')

    assert [one.guard for one in found] == ["HIP", "not (HIP)"]


def test_joins_conditions_up_to_the_function(read: Callable[[str], tuple[Finding, ...]]) -> None:
    found = read(
        'if A:\n    if B:\n        x = "-lineinfo"\n\n    def f():\n        y = "-lineinfo"\n'
    )

    assert [one.guard for one in found] == ["A and B", ""]


def test_knows_switch_that_is_off(tmp_path: Path) -> None:
    found = read_setup(write_tree(tmp_path, FILES))

    assert [one.guard for one in found if one.kind == "flag"] == ["LINE_INFO, off by default"]


def test_reads_modules_of_the_tree_that_are_imported(
    tmp_path: Path, read: Callable[[str], tuple[Finding, ...]]
) -> None:
    (tmp_path / "tools.py").write_text('import os\nA = os.getenv("A")\n')

    found = read("import tools\n")

    assert [(one.kind, one.name, one.where) for one in found] == [("variable", "A", "tools.py:2")]


def test_says_what_it_cannot_read(read: Callable[[str], tuple[Finding, ...]]) -> None:
    [found] = read("print 'Python 2'\n")

    assert found.kind == "unread"


def test_runs_nothing(tmp_path: Path, read: Callable[[str], tuple[Finding, ...]]) -> None:
    read(f'open({str(tmp_path / "run")!r}, "w")\n')

    assert not (tmp_path / "run").exists()


def test_follows_folders_that_are_added_to_the_path(tmp_path: Path) -> None:
    files = {
        "setup.py": "import os, sys\nroot = os.path.dirname(__file__)\n"
        "sys.path.append(os.path.join(root, 'install'))\n"
        "import helper\nfrom helper import features\n",
        "install/helper/__init__.py": "import os\nJOBS = os.getenv('TINY_JOBS')\n",
        "install/helper/features.py": "CUBLAS = {'name': 'blas', 'libraries': ['cublas', name]}\n",
    }

    found = read_setup(write_tree(tmp_path, files))

    assert {(one.kind, one.name, one.where) for one in found} == {
        ("variable", "TINY_JOBS", "install/helper/__init__.py:2"),
        ("library", "cublas", "install/helper/features.py:1"),
    }


@pytest.mark.parametrize("folder", ["'..'", "'lost'", "name", "'/'"])
def test_stays_inside_the_tree(folder: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    files = {"setup.py": f"import sys\nsys.path.insert(0, {folder})\nimport outside\n"}
    write_tree(tmp_path, {"outside/__init__.py": "import os\nos.getenv('OUTSIDE')\n"})

    found = read_setup(write_tree(tree, files))

    assert [(one.kind, one.name) for one in found] == [("import", "outside")]


def test_puts_package_in_front_of_extensions(read: Callable[[str], tuple[Finding, ...]]) -> None:
    [found] = read('setup(ext_package="tiny", ext_modules=[Extension("_driver", [])])\n')

    assert found.name == "tiny._driver"


def test_takes_none_for_no_default(read: Callable[[str], tuple[Finding, ...]]) -> None:
    [found] = read('import os\nX = os.getenv("A", None)\n')

    assert found.default == ""
