"""What each start of Python runs or takes: who sets variables, blocks and hides modules."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cuwheel.base.system.process import run
from cuwheel.check.diagnose.facts.builds import why_unstartable
from cuwheel.check.diagnose.facts.environment import Distribution, find_environment
from cuwheel.check.diagnose.facts.installed_files import Shadow, importable_modules
from cuwheel.check.diagnose.facts.machine import Driver
from cuwheel.check.diagnose.facts.shadows import find_shadows
from cuwheel.check.diagnose.facts.startup import removal_of, startup_file_with
from cuwheel.check.diagnose.rules.driver import judge_driver
from cuwheel.check.diagnose.rules.known_causes import find_known_cause
from cuwheel.check.diagnose.rules.shadows import fix_shadow
from cuwheel.check.diagnose.rules.variables import (
    judge_changed,
    judge_named,
    judge_switches,
    judge_variables,
)
from cuwheel.check.diagnose.toolkits import judge_python_headers
from tests.check.diagnose.samples import (
    make_context,
    make_distribution,
    make_environment,
    make_host,
    toolkit_verdicts,
)
from tests.support.check.environments import Env, look_into, verdict_on
from tests.support.toolchains.layouts import write_toolkit

_HIDES = 'import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "-1"\n'


def install(site: Path, project: str, *files: str) -> Distribution:
    """Write files and their RECORD."""
    metadata = site / f"{project}-1.0.dist-info"
    metadata.mkdir(parents=True)
    for file in files:
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).write_bytes(b"")
    (metadata / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    return make_distribution(project, site, metadata=metadata)


@pytest.mark.parametrize(
    ("file", "text", "command"),
    [
        ("sitecustomize.py", _HIDES, "rm {}"),
        ("sitecustomize.py", f"{_HIDES}print(1)\n", "sed -i /CUDA_VISIBLE_DEVICES/d {}"),
        ("usercustomize.py", f"if 1:\n    {_HIDES.splitlines()[1]}\n", ""),
        ("a.pth", "import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''\n", "rm {}"),
        ("a.pth", "import os; os.environ['CUDA_DEVICE_ORDER'] = ''\n", None),
    ],
)
def test_names_file_that_sets_a_variable(
    tmp_path: Path, file: str, text: str, command: str | None
) -> None:
    path = tmp_path / file
    path.write_text(text)

    found = startup_file_with([tmp_path], "CUDA_VISIBLE_DEVICES")

    assert found == (path if command is not None else None)
    if command is not None:
        assert removal_of(path, "CUDA_VISIBLE_DEVICES", ()) == command.format(path)


def test_removes_nothing_from_a_file_that_a_package_installed(tmp_path: Path) -> None:
    editable = install(tmp_path, "own", "__editable__.own.pth")
    path = tmp_path / "__editable__.own.pth"
    path.write_text("/home/me/own\n")

    assert removal_of(path, "/home/me/own", [editable]) == ""
    assert removal_of(path, "/home/me/own", ()).startswith("rm ")


def test_names_module_that_a_pth_imports(tmp_path: Path) -> None:
    (tmp_path / "boot.pth").write_text("import boot\n")
    (tmp_path / "boot.py").write_text(_HIDES)
    (tmp_path / "other.py").write_text(_HIDES)

    assert startup_file_with([tmp_path], "CUDA_VISIBLE_DEVICES") == tmp_path / "boot.py"


@pytest.mark.parametrize(
    ("value", "level"), [("-1", "warning"), ("", "warning"), ("0,1", "note"), (None, "")]
)
def test_judges_variable_that_each_start_sets(
    tmp_path: Path, value: str | None, level: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_HIDES)
    variables = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    environment = replace(make_environment(), sites=(tmp_path,), variables=variables)

    levels = [one.level for one in judge_changed(environment, has_gpu=False)]

    assert levels == [level] * bool(level)


def test_shows_no_value_that_may_be_a_secret(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text('import os\nos.environ["NVIDIA_KEY"] = "geheim"\n')
    variables = {"NVIDIA_KEY": "geheim"}
    environment = replace(make_environment(), sites=(tmp_path,), variables=variables)

    [verdict] = judge_changed(environment, has_gpu=True)

    assert "NVIDIA_KEY" in verdict.what
    assert "geheim" not in str(verdict)


def test_leaves_variable_of_a_program_around_python(tmp_path: Path) -> None:
    environment = replace(
        make_environment(), sites=(tmp_path,), variables={"LD_LIBRARY_PATH": "/conda/lib"}
    )

    assert [*judge_changed(environment, has_gpu=True)] == []


@pytest.mark.parametrize("module", ["numpy", "torch"])
def test_names_startup_file_that_blocks_a_module(tmp_path: Path, module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['numpy'] = None\n")
    environment = replace(make_environment(), sites=(tmp_path,))
    exception = f"ModuleNotFoundError: import of {module} halted; None in sys.modules"

    cause = find_known_cause(
        exception, make_distribution("cupy"), make_context(environment=environment)
    )

    assert (cause.command if cause else "") == (
        f"rm {tmp_path}/sitecustomize.py" if module == "numpy" else ""
    )


def test_leaves_a_packages_own_redirector(tmp_path: Path) -> None:
    own = install(tmp_path, "bindings", "boot.pth", "boot.py")
    (tmp_path / "boot.pth").write_text("import boot\n")
    (tmp_path / "boot.py").write_text("NAME = 'cuda.bindings'\n")
    environment = replace(make_environment(own), sites=(tmp_path,))
    exception = "ModuleNotFoundError: import of cuda.bindings halted; None in sys.modules"

    assert find_known_cause(exception, own, make_context(environment=environment)) is None


@pytest.mark.parametrize("name", ["_version.pyc", "_version.py"])
def test_installs_again_what_is_only_compiled_by_another_python(tmp_path: Path, name: str) -> None:
    own = install(tmp_path, "pathfinder", "cuda/pathfinder/_version.py")
    (tmp_path / "cuda/pathfinder/_version.py").rename(tmp_path / "cuda/pathfinder" / name)
    exception = "ImportError: bad magic number in 'cuda.pathfinder._version': b'o'"

    cause = find_known_cause(exception, own, make_context(own))

    assert cause
    assert cause.command.startswith(f"rm {tmp_path}/cuda" if name.endswith("c") else "find ")


def test_removes_stale_compiled_module() -> None:
    exception = "ImportError: x; /a/__pycache__/m.cpython-311.pyc isn't of its source"

    cause = find_known_cause(exception, make_distribution("m"), make_context())

    assert cause
    assert cause.command == "rm /a/__pycache__/m.cpython-311.pyc"


@pytest.mark.parametrize(("project", "count"), [("onnxruntime", 1), ("onnxruntime-gpu", 0)])
def test_finds_other_project_with_the_same_module(
    tmp_path: Path, project: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuwheel.check.diagnose.facts.shadows.needs_gpu", lambda _: True)
    first = install(tmp_path / "first", project, "onnxruntime/__init__.py")
    own = install(tmp_path / "site", "onnxruntime-gpu", "onnxruntime/__init__.py")
    environment = replace(
        make_environment(first, own) if count else make_environment(own),
        sites=(tmp_path / "first", tmp_path / "site"),
        shadowed=() if count else (first,),
    )

    found = [*find_shadows(own, environment, tmp_path / "site")]

    assert [shadow.path for shadow in found] == [tmp_path / "first/onnxruntime/__init__.py"] * count


def test_imports_packages_in_a_shared_folder(tmp_path: Path) -> None:
    own = install(
        tmp_path, "cuda-bindings", "cuda/bindings/__init__.py", "cuda/bindings/a/__init__.py"
    )
    libraries = install(tmp_path, "nvidia-cublas", "nvidia/cublas/__init__.py")

    assert importable_modules(own) == ("cuda.bindings",)
    assert importable_modules(libraries) == ()


@pytest.mark.parametrize(
    ("value", "container", "anchor"),
    [
        ("void", "docker", "docker-no-gpu-runtime"),
        ("none", "docker", "docker-no-gpu-runtime"),
        ("all", "docker", "no-cuda-device"),
        ("void", "", "no-cuda-device"),
    ],
)
def test_names_variable_that_keeps_gpus_out_of_a_container(
    value: str, container: str, anchor: str
) -> None:
    driver = Driver(cuda_fault="libcuda.so.1: cannot open shared object file")
    environ = {"NVIDIA_VISIBLE_DEVICES": value}

    [verdict] = judge_driver(driver, make_host(container=container), environ)

    assert verdict.anchor == anchor


@pytest.mark.parametrize("name", ["CC", "CXX", "CUDACXX", "CUDAHOSTCXX", "NVCC_CCBIN"])
@pytest.mark.parametrize("value", ["/no/compiler", "sh"])
def test_judges_variable_with_a_missing_compiler(name: str, value: str) -> None:
    found = judge_named({name: value, "PATH": "/usr/bin:/bin"}, ())

    levels = [(one.level, one.command) for one in found]
    assert levels == [("broken", f"unset {name}")] * (value != "sh")


@pytest.mark.parametrize(("value", "count"), [("/no/libcuda.so.1", 1), ("/bin/sh", 0)])
def test_names_missing_library_of_numbas_variable(value: str, count: int) -> None:
    found = judge_named({"NUMBA_CUDA_DRIVER": value}, ("numba",))

    assert [one.command for one in found] == ["unset NUMBA_CUDA_DRIVER"] * count


@pytest.mark.parametrize(
    ("name", "value", "count"),
    [
        ("TMPDIR", "/no/tmp", 1),
        ("TMPDIR", "/", 0),
        ("SSL_CERT_FILE", "/no/ca.pem", 1),
        ("PIP_PYTHON", "/bin/sh", 0),
        ("PIP_INDEX_URL", "file:///no/wheels", 1),
        ("PIP_INDEX_URL", "https://index/simple", 0),
        ("CUDA_VISIBLE_DEVICES", "cuda:0", 1),
        ("CUDA_VISIBLE_DEVICES", "0, 1", 0),
        ("CUDA_VISIBLE_DEVICES", "GPU-8932f937-d72c-4106", 0),
        ("CUDA_VISIBLE_DEVICES", "MIG-GPU-8932f937/1/0", 0),
        ("CUDA_VISIBLE_DEVICES", "-1", 0),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", "90%", 1),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", ".9", 0),
        ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size:128", 1),
        ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128,a_new_option:1", 0),
        ("PYTORCH_ALLOC_CONF", "expandable_segments=True", 1),
        ("PYTORCH_ALLOC_CONF", "roundup_power2_divisions:[256:1,512:2,>:8]", 0),
    ],
)
def test_judges_value_of_a_variable(name: str, value: str, count: int) -> None:
    found = judge_named({name: value}, ("torch", "jax"))

    assert [one.command for one in found] == [f"unset {name}"] * count


@pytest.mark.parametrize(("name", "count"), [("/etc/passwd", 1), (sys.executable, 0)])
@pytest.mark.parametrize("variable", ["LD_PRELOAD", "LD_AUDIT"])
def test_names_file_that_is_no_library(variable: str, name: str, count: int) -> None:
    found = judge_variables({variable: name})

    assert [one.command for one in found] == [f"unset {variable}"] * count


@pytest.mark.parametrize(
    ("value", "failed", "level"),
    [("cuda", "jax", "broken"), ("cuda", "torch", "note"), ("cpu", "torch", "warning")],
)
def test_names_variable_of_a_startup_file_with_which_its_reader_fails(
    tmp_path: Path, value: str, failed: str, level: str
) -> None:
    text = f"import os\nos.environ['JAX_PLATFORMS'] = {value!r}\n"
    (tmp_path / "sitecustomize.py").write_text(text)
    own = make_environment(make_distribution("jax"))
    environment = replace(own, sites=(tmp_path,), variables={"JAX_PLATFORMS": value})

    [verdict] = judge_changed(environment, [failed], has_gpu=False)

    assert verdict.level == level
    assert bool(verdict.command) == (level != "note")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "the file is empty"),
        (b"#!/no/python\n", "its first line names /no/python, which isn't there"),
        (b"#!/bin/sh\n", ""),
        (b"text", "it is neither a program of Linux nor a script"),
        (b"\x7fELF", "it is damaged"),
        (None, ""),
    ],
)
def test_tells_why_a_program_cant_be_started(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    (tmp_path / "python").write_bytes(
        Path("/bin/true").read_bytes() if content is None else content
    )

    assert why_unstartable(tmp_path / "python") == why


@pytest.mark.parametrize("name", ["python3.12", "python3.11"])
def test_links_an_environment_to_its_python_again(tmp_path: Path, name: str) -> None:
    base = tmp_path / name
    base.write_bytes(b"")
    base.chmod(0o755)
    (tmp_path / "e" / "bin").mkdir(parents=True)
    (tmp_path / "e" / "pyvenv.cfg").write_text(f"home = {base.parent}\nversion_info = 3.12.1\n")
    link = tmp_path / "e/bin/python"
    link.symlink_to("/no/python")

    command = find_environment(str(tmp_path / "e"), {}, tmp_path).command

    assert bool(command) == (name == "python3.12")
    if command:
        run(["sh", "-c", command], env={"PATH": "/usr/bin:/bin"})
        assert link.resolve() == base


@pytest.mark.parametrize(
    ("path", "start"),
    [
        ("{home}/.cupy", "export CUPY_CACHE_DIR="),
        ("{home}/.cupy/kernel_cache/a", "export CUPY_CACHE_DIR="),
        ("{home}/.other", "export HOME="),
        ("/srv/other", ""),
    ],
)
@pytest.mark.parametrize("number", [13, 28, 30])
def test_moves_what_is_written_elsewhere(
    tmp_path: Path, path: str, start: str, number: int
) -> None:
    error = f"OSError: [Errno {number}] No: '{path.format(home=tmp_path)}'"
    context = replace(make_context(), environ={"HOME": str(tmp_path)})

    cause = find_known_cause(error, make_distribution("cupy"), context)

    assert cause
    assert (cause.anchor, cause.command.partition('"')[0]) == ("permission-denied", start)


@pytest.mark.parametrize(
    ("error", "is_full"),
    [("OSError: [Errno 28] No space left", True), ("OSError: [Errno 5] Input/output error", False)],
)
def test_names_full_folder_for_temporary_files(
    env: Env, monkeypatch: pytest.MonkeyPatch, error: str, *, is_full: bool
) -> None:
    def fail(*_: object) -> None:
        raise OSError(error)

    monkeypatch.setattr("cuwheel.check.diagnose.diagnose.read_environment", fail)

    verdict = verdict_on(look_into(env), "python-not-found")

    assert ("no temporary file can be written" in verdict.what) == is_full


@pytest.mark.parametrize(
    ("file", "project", "renamed"),
    [
        ("x.py", "", "x.py"),
        ("x/__init__.py", "", "x"),
        ("x/__init__.py", "pyproject.toml", ""),
        ("x.so", "", ""),
    ],
)
def test_renames_what_is_no_source_of_a_project(
    tmp_path: Path, file: str, project: str, renamed: str
) -> None:
    if project:
        (tmp_path / project).touch()
    shadow = Shadow(
        distribution="x", module="x", path=tmp_path / file, entry=tmp_path, is_start=True
    )

    command = fix_shadow(make_context(), shadow)[1]

    assert command == (f"mv {tmp_path}/{renamed} {tmp_path}/my_{renamed}" if renamed else "")


@pytest.mark.parametrize(("value", "count"), [("1", 1), ("0", 0)])
def test_names_variable_that_makes_triton_interpret(tmp_path: Path, value: str, count: int) -> None:
    found = judge_switches({"TRITON_INTERPRET": value}, ("triton",), tmp_path, has_gpu=True)

    assert [one.command for one in found] == ["unset TRITON_INTERPRET"] * count


@pytest.mark.parametrize(("folder", "count"), [("empty", 1), ("full", 0)])
def test_names_missing_headers_of_python(tmp_path: Path, folder: str, count: int) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "Python.h").touch()
    environment = replace(make_environment(), scheme={"include": tmp_path / folder})

    assert len([*judge_python_headers(environment)]) == count


@pytest.mark.usefixtures("bare_machine")
@pytest.mark.parametrize("flag", ["-ccbin=/no/g++", "-O2"])
def test_tries_nvcc_with_flags_that_are_set(cuda_home: Path, flag: str) -> None:
    found = toolkit_verdicts(
        CUDA_HOME=str(cuda_home), PATH="/usr/bin:/bin", NVCC_PREPEND_FLAGS=flag
    )

    commands = [one.command for one in found if one.level == "broken"]
    assert commands == ["unset NVCC_PREPEND_FLAGS"] * (flag != "-O2")


@pytest.mark.usefixtures("bare_machine")
def test_takes_first_nvcc_that_fails_off_path(tmp_path: Path) -> None:
    bad = write_toolkit(tmp_path / "bad", "", script="echo 'nvcc fatal: no cicc' >&2; exit 1")
    good = write_toolkit(tmp_path / "good", "13.0")

    found = toolkit_verdicts(PATH=f"{bad}/bin:{good}/bin:/usr/bin:/bin")

    assert [one.command for one in found if one.level == "broken"] == [
        f"export PATH={good}/bin:/usr/bin:/bin"
    ]
    assert all("nvcc fatal: no cicc" in one.cause for one in found if one.level == "broken")
    assert not any(one.what.startswith("builds use") for one in found)


@pytest.mark.parametrize(("encoding", "is_known"), [("utf-16", True), ("latin-1", False)])
def test_writes_configuration_in_utf_8(env: Env, encoding: str, *, is_known: bool) -> None:
    configuration = env.python.parent.parent / "pyvenv.cfg"
    text = configuration.read_text()
    configuration.write_bytes(f"{text}# ä".encode(encoding))

    verdict = verdict_on(look_into(env), "python-not-found")

    assert ("isn't written in UTF-8" in verdict.what) == is_known
    subprocess.run(["bash", "-c", verdict.command], check=True)
    assert not is_known or configuration.read_text() == f"{text}# ä"
