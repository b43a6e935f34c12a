from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.build.drafts.readers.facts import SourceFact
from cuwheel.build.drafts.readers.setup_py import read_setup
from tests.support.build.drafts import FILES, write_tree

Read = Callable[[str], tuple[SourceFact, ...]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read a setup.py of this text."""

    def run(text: str) -> tuple[SourceFact, ...]:
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
        ('X = os.getenv("A", None)', "A", "", ""),
    ],
)
def test_finds_variable(line: str, name: str, default: str, wants: str, read: Read) -> None:
    facts = [fact for fact in read(f"import os\n{line}\n") if fact.kind == "variable"]

    assert [(fact.name, fact.default, fact.wants) for fact in facts] == [(name, default, wants)]


def test_reports_that_a_name_is_computed(read: Read) -> None:
    [facts] = read('import os\nX = os.getenv(f"{PREFIX}_ARCHS")\n')

    assert (facts.kind, facts.where) == ("computed variable", "setup.py:2")


@pytest.mark.parametrize(
    ("line", "programs"),
    [
        ('subprocess.run(["cmake", source])', ["cmake"]),
        ('command = f"cd {folder}\\n  cmake {options} {source}\\n make"', ["cmake"]),
        ('command = "cmake -S . -B build"', ["cmake"]),
        ('print("cmake is required")', []),
        ('print("see cmake ")', []),
    ],
)
def test_finds_program(line: str, programs: list[str], read: Read) -> None:
    facts = read(f"import subprocess\n{line}\n")

    assert [fact.name for fact in facts if fact.kind == "program"] == programs


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("urllib.request.urlretrieve(url, name)", "urllib.request.urlretrieve(url, name)"),
        ("requests.get(url)", "requests.get(url)"),
        ('subprocess.run(["git", "clone", url])', "git clone …"),
        ('os.system("wget https://example.invalid/x")', "wget https://example.invalid/x"),
    ],
)
def test_finds_download(line: str, name: str, read: Read) -> None:
    facts = [fact for fact in read(f"import os\n{line}\n") if fact.kind == "download"]

    assert [(fact.name, fact.where) for fact in facts] == [(name, "setup.py:2")]


@pytest.mark.parametrize(
    ("name", "options", "module"),
    [
        ("_driver", "", "_driver"),
        ("_driver", 'ext_package="tiny", ', "tiny._driver"),
        ("tiny/cuda", "", "tiny.cuda"),
    ],
)
def test_names_extension_as_python_imports_it(
    name: str, options: str, module: str, read: Read
) -> None:
    facts = read(f'setup({options}ext_modules=[Extension("{name}", [])])\n')

    assert [fact.name for fact in facts if fact.kind == "extension"] == [module]


def test_reads_package_whole(tmp_path: Path) -> None:
    facts = read_setup(write_tree(tmp_path, FILES))

    assert {(fact.kind, fact.name, fact.where) for fact in facts} == {
        ("import", "setuptools", "setup.py:4"),
        ("torch extension", "torch", "setup.py:5"),
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


@pytest.mark.parametrize(
    ("text", "guards"),
    [
        ('if HIP:\n    a = "-lineinfo"\nelse:\n    b = "-lineinfo"\n', ["HIP", "not (HIP)"]),
        (
            'if A:\n    if B:\n        x = "-lineinfo"\n\n    def f():\n        y = "-lineinfo"\n',
            ["A and B", ""],
        ),
    ],
)
def test_joins_conditions_up_to_the_function(text: str, guards: list[str], read: Read) -> None:
    assert [fact.guard for fact in read(text)] == guards


def test_reads_modules_of_the_tree_that_are_imported(tmp_path: Path, read: Read) -> None:
    (tmp_path / "tools.py").write_text('import os\nA = os.getenv("A")\n')

    facts = read("import tools\n")

    assert [(fact.kind, fact.name, fact.where) for fact in facts] == [
        ("variable", "A", "tools.py:2")
    ]


def test_reports_what_it_cannot_read(read: Read) -> None:
    [facts] = read("print 'Python 2'\n")

    assert facts.kind == "unread"


def test_runs_nothing(tmp_path: Path, read: Read) -> None:
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

    facts = read_setup(write_tree(tmp_path, files))

    assert {(fact.kind, fact.name, fact.where) for fact in facts} == {
        ("variable", "TINY_JOBS", "install/helper/__init__.py:2"),
        ("library", "cublas", "install/helper/features.py:1"),
    }


@pytest.mark.parametrize("folder", ["'..'", "'lost'", "name", "'/'"])
def test_stays_inside_the_tree(folder: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    files = {"setup.py": f"import sys\nsys.path.insert(0, {folder})\nimport outside\n"}
    write_tree(tmp_path, {"outside/__init__.py": "import os\nos.getenv('OUTSIDE')\n"})

    facts = read_setup(write_tree(tree, files))

    assert [(fact.kind, fact.name) for fact in facts] == [("import", "outside")]
