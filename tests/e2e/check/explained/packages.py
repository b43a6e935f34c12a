"""Failures of pip, uv and Python's packages."""

from __future__ import annotations

import sys
import sysconfig

from tests.support.check.trials import Trial

# No index but the folder dist.
_OFFLINE = (
    "venv; export PIP_NO_INDEX=1 PIP_FIND_LINKS=$PWD/dist UV_NO_INDEX=1 UV_FIND_LINKS=$PWD/dist"
)


def project(name: str, setup: str, pyproject: str = "") -> str:
    """Return a command that writes the sources of a package."""
    return f"""
    mkdir -p {name}
    cat > {name}/setup.py <<'END'
{setup}
END
    cat > {name}/pyproject.toml <<'END'
{pyproject}
END"""


_MINOR = sys.version_info[1]  # of the Python that is too new
_PIP = sysconfig.get_paths()["purelib"]  # the system's Python may have none
_SETUP = "from setuptools import setup\nsetup(name='tiny', version='1.0', py_modules=[])"
TRIALS = (
    Trial(
        cause="isolated-build-no-torch",
        before="wheel torch 99.0 '';" + project("p", f"import torch\n{_SETUP}"),
        settings="venv; export PIP_FIND_LINKS=$PWD/dist",
        command="pip install ./p",
        typed="pip install torch && ",
        values={"PACKAGE": "./p"},
        again="{}",
        is_slow=True,
    ),
    Trial(
        cause="isolated-build-no-torch",
        before="wheel torch 99.0 '';" + project("p", f"import torch\n{_SETUP}"),
        settings="venv; export UV_FIND_LINKS=$PWD/dist",
        command="uv pip install ./p",
        typed="uv pip install --no-build-isolation",
        values={"PACKAGE": "./p"},
        action="uv pip install torch setuptools",
        again="{}",
        is_slow=True,
    ),
    Trial(
        cause="build-requirement-missing",
        before=project("p", f"import pybind11\n{_SETUP}"),
        settings="venv",
        command="pip install --no-build-isolation ./p",
        typed="pip install setuptools",
        is_slow=True,
    ),
    Trial(
        cause="setuptools-pkg-resources-removed",
        before=project("p", f"import pkg_resources\n{_SETUP}"),
        settings="venv",
        command="pip install --no-build-isolation ./p",
        typed='pip install "setuptools<70"',
        is_slow=True,
    ),
    Trial(
        cause="setuptools-pkg-resources-removed",
        before=project("p", f"import pkg_resources\n{_SETUP}"),
        settings="venv",
        command="pip install ./p",
        typed=("setuptools<70", "pip install --build-constraint"),
        values={"setuptools<70": "echo 'setuptools<70' > constraints.txt", "...": "./p"},
        again="{}",
        is_slow=True,
    ),
    Trial(
        cause="wheel-module-missing",
        before=project("p", _SETUP) + "\n(venv; pip install -q 'setuptools<70')",
        settings="venv",
        command="cd p && python setup.py bdist_wheel",
        typed="pip install wheel",
        is_slow=True,
    ),
    Trial(
        cause="distutils-removed",
        before=project("p", "from distutils.core import setup\nsetup(name='tiny', version='1.0')")
        + "\n$PYTHON -m venv .v",
        settings=". .v/bin/activate",
        command="cd p && python setup.py build",
        typed='pip install "setuptools<74"',
        needs=("3.12",),
        is_slow=True,
    ),
    Trial(
        cause="metadata-refused-by-pip",
        before="wheel tiny 1.0 '' 'Requires-Dist: numpy (>=1.*)'",
        settings=f"{_OFFLINE}; unset PIP_NO_INDEX",
        command="pip install --no-deps tiny==1.0",
        typed="python -m pip install",
        is_slow=True,
    ),
    Trial(
        cause="pip-resolution-conflict",
        before="""
        wheel tiny 1.0 ''; wheel tiny 2.0 ''
        wheel user 1.0 '' 'Requires-Dist: tiny<2'; wheel user 2.0 '' 'Requires-Dist: tiny>=2'""",
        settings=_OFFLINE,
        command="pip install user==${USER_RELEASE:-2.0} tiny==1.0",
        advice="Loosen your own pin|Install the release of (?P<package>\\w+) for",
        action="USER_RELEASE=1.0",
    ),
    Trial(
        cause="pip-resolution-conflict",
        before="""
        wheel tiny 1.0 ''; wheel tiny 2.0 ''
        wheel user 1.0 '' 'Requires-Dist: tiny<2'; wheel user 2.0 '' 'Requires-Dist: tiny>=2'""",
        settings=_OFFLINE,
        command="uv pip install user==${USER_RELEASE:-2.0} tiny==1.0",
        advice="Loosen your own pin|Install the release of (?P<package>\\w+) for",
        action="USER_RELEASE=1.0",
    ),
    Trial(
        cause="pip-index-lacks-version",
        before="wheel tiny 1.0 ''",
        settings=_OFFLINE,
        command="pip install tiny==${RELEASE-2.0} 2>&1 | tee log; exit ${PIPESTATUS[0]}",
        advice='Otherwise choose a release from the list "(?P<list>from versions)"',
        action='RELEASE=$(sed -n "s/.*$list: \\([0-9.]*\\).*/\\1/p" log)',
    ),
    Trial(
        cause="wheel-tag-unsupported",
        before="""
        wheel tiny 1.0 ''; cd dist
        cp tiny-1.0-py3-none-any.whl tiny-1.0-cp39-cp39-win_amd64.whl""",
        settings=_OFFLINE,
        command="pip install ${WHEEL-dist/tiny-1.0-cp39-cp39-win_amd64.whl}",
        advice="Use a wheel with matching tags",
        action="WHEEL=dist/tiny-1.0-py3-none-any.whl",
    ),
    Trial(
        cause="local-wheel-missing",
        before="wheel tiny 1.0 ''",
        settings=_OFFLINE,
        command="pip install ./dist/${WHEEL-tiny-1.0-cp312-cp312-linux_x86_64.whl}",
        advice="List the folder and give the exact name",
        action="WHEEL=$(ls dist)",
    ),
    Trial(
        cause="wheel-version-mismatch",
        before="wheel tiny 1.0 ''; cd dist; mv tiny*.whl tiny-1.0+cu130-py3-none-any.whl",
        settings=_OFFLINE,
        command="pip install tiny==1.0+cu130",
        typed="pip install ./FILE.whl",
        values={"./FILE.whl": "dist/*.whl"},
        again="{}",
    ),
    Trial(
        cause="wheel-version-mismatch",
        before="wheel tiny 1.0 ''; cd dist; mv tiny-1.0-py3-none-any.whl tiny-2.0-py3-none-any.whl",
        settings=_OFFLINE,
        command="uv pip install tiny==2.0",
        typed="export UV_SKIP_WHEEL_FILENAME_CHECK=1",
    ),
    Trial(
        cause="hash-mismatch",
        before="""
        wheel tiny 1.0 '' && cp -r dist index
        hash=$(sha256sum dist/*.whl | cut -d' ' -f1)
        echo "tiny==1.0 --hash=sha256:$hash" > requirements.txt
        wheel tiny 1.0 'damaged = True'""",
        settings=_OFFLINE,
        command="pip install --require-hashes -r requirements.txt",
        advice="Download it again",
        action="cp index/*.whl dist/",
    ),
    Trial(
        cause="network-download-failed",
        before="wheel tiny 1.0 ''",
        settings="""venv; unset PIP_FIND_LINKS
        export PIP_INDEX_URL=http://127.0.0.1:9/simple PIP_RETRIES=1""",
        command="pip install ${WHAT-tiny}",
        advice="or install the file by path",
        action="WHAT=dist/tiny-1.0-py3-none-any.whl",
    ),
    Trial(
        cause="python-package-not-installed",
        before="wheel tiny 1.0 ''",
        settings=_OFFLINE,
        command="python -c 'import tiny'",
        typed="python -m pip install",
        action="{} tiny",
    ),
    Trial(
        cause="python-dep-incompatible",
        before="""
        wheel hub 1.0 'def cached_download(): ...'; wheel hub 2.0 ''
        wheel user 1.0 'from hub import cached_download'""",
        settings=f"{_OFFLINE}; [ -e done ] || pip install -q hub user && touch done",
        command="python -c 'import user'",
        typed='pip install "NAME<VERSION"',
        values={"NAME": "hub", "VERSION": "2"},
    ),
    Trial(
        cause="glibc-too-old",
        before="""
        echo 'GLIBC_2.99 { global: *; };' > versions && echo 'int used(void) { return 0; }' > libc.c
        gcc -shared -fPIC -nostdlib -Wl,--version-script=versions -Wl,-soname,libc.so.6 libc.c \\
            -o libc.so.6
        echo 'int used(void); int use(void) { return used(); }' > module.c
        gcc -shared -fPIC -nostdlib module.c libc.so.6 -o module.so
        code='import ctypes, pathlib; ctypes.CDLL(str(pathlib.Path(__file__).parent / "module.so"))'
        wheel tiny 1.0 "$code" && cd dist
        mkdir tiny-1.0 && cd tiny-1.0 && echo 'value = 1' > tiny.py
        printf 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n' > PKG-INFO
        printf '%s\\n' 'from setuptools import setup' \\
            'setup(name="tiny", version="1.0", py_modules=["tiny"])' > setup.py
        (cd ../..; venv; pip download -q --no-deps -d dist setuptools)
        cd .. && tar czf tiny-1.0.tar.gz tiny-1.0 && rm -r tiny-1.0""",
        settings=f"""{_OFFLINE}
        [ -e done ] || pip install -q tiny==1.0 && touch done""",
        command="python -c 'import tiny'",
        typed="pip install --no-binary",
        values={"PACKAGE": "tiny"},
        is_slow=True,
    ),
    Trial(
        cause="torch-abi-mismatch",
        before="""
        mkdir torch
        echo 'namespace c10 { struct Error { void what(int) const; }; }' > torch/c10.h
        printf '#include "c10.h"\\nvoid c10::Error::what(int) const {}\\n' > torch/c10.cpp
        g++ -shared -fPIC torch/c10.cpp -o torch/libc10.so
        mkdir ops && cat > ops/ops.cpp <<'END'
#include <Python.h>
#include <c10.h>
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "ops"};
PyMODINIT_FUNC PyInit_ops() { c10::Error().what(1); return PyModule_Create(&module); }
END
        cat > ops/setup.py <<END
from setuptools import Extension, setup
torch = "$PWD/torch"
setup(name="ops", version="1.0", ext_modules=[Extension("ops", ["ops.cpp"], include_dirs=[torch],
    library_dirs=[torch], runtime_library_dirs=[torch], libraries=["c10"])])
END
        (venv; pip install -q --no-build-isolation --no-index ./ops)
        sed -i 's/int/long/' torch/c10.*; g++ -shared -fPIC torch/c10.cpp -o torch/libc10.so""",
        settings="venv",
        command="LD_BIND_NOW=1 python -c 'import ops'",
        typed="rm -rf build",
        values={"PACKAGE": "."},
        action="(cd ops; {})",
        is_slow=True,
    ),
    Trial(
        cause="built-without-cuda",
        before="""
        mkdir ops && cat > ops/setup.py <<'END'
import os
from setuptools import setup
error = "" if os.environ.get("FORCE_CUDA") else "Not compiled with CUDA support"
open("ops.py", "w").write(f"if {error!r}: raise RuntimeError({error!r})")
setup(name="ops", version="1.0", py_modules=["ops"])
END
        (venv; pip install -q --no-build-isolation --no-index ./ops)""",
        settings="venv",
        command="python -c 'import ops'",
        typed="rm -rf build",
        action="(cd ops && {})",
    ),
    Trial(
        cause="cpu-instruction-missing",
        before="""
        mkdir ops && cat > ops/setup.py <<'END'
from setuptools import Extension, setup
setup(name="ops", version="1.0", ext_modules=[Extension("ops", ["ops.c"])])
END
        cat > ops/ops.c <<'END'
#include <Python.h>
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "ops"};
PyMODINIT_FUNC PyInit_ops(void) {
#ifdef __AVX512FP16__
    __asm__("ud2");  // stands for an instruction that this CPU lacks
#endif
    return PyModule_Create(&module);
}
END
        printf 'Metadata-Version: 2.1\\nName: ops\\nVersion: 1.0\\n' > ops/PKG-INFO
        mkdir dist && mv ops ops-1.0 && tar czf dist/ops-1.0.tar.gz ops-1.0
        (venv; pip download -q --no-deps -d dist setuptools)
        (venv; CFLAGS=-mavx512fp16 pip install -q --no-build-isolation --no-index ./ops-1.0)""",
        settings=_OFFLINE,
        command="bash -c 'python -c \"import ops\"; exit $?'",
        typed="CFLAGS=",
        values={"PACKAGE": "ops"},
        is_slow=True,
    ),
    Trial(
        cause="externally-managed-environment",
        before="wheel tiny 1.0 ''",
        settings="export PIP_NO_INDEX=1 PIP_FIND_LINKS=$PWD/dist",
        command=f"PYTHONPATH={_PIP} /usr/bin/python3 -m pip install --dry-run tiny",
        typed="python3 -m venv",
        values={"python3": "/usr/bin/python3", "PACKAGE": "tiny"},
        again="{}",
        needs=("system-python",),
        is_slow=True,
    ),
    Trial(
        cause="externally-managed-environment",
        before="wheel tiny 1.0 ''",
        settings="export UV_NO_INDEX=1 UV_FIND_LINKS=$PWD/dist",
        command="uv pip install --dry-run --python /usr/bin/python3 tiny",
        typed="uv venv",
        values={"PACKAGE": "tiny"},
        again="{}",
        needs=("system-python",),
    ),
    Trial(
        cause="no-virtual-environment",
        before="wheel tiny 1.0 ''",
        settings="""
        mkdir -p own && cp -n "$(command -v uv)" own/  # uv uses the environment that it is in
        export UV_NO_INDEX=1 UV_FIND_LINKS=$PWD/dist PATH=$PWD/own:/usr/bin:/bin""",
        command="uv pip install tiny",
        typed="uv venv",
        values={"PACKAGE": "tiny"},
        again="{}",
    ),
    Trial(
        cause="no-virtual-environment",
        before="uv venv -q .v",
        command=".v/bin/python -m pip --version",
        typed="uv venv --seed",
        action="{} --clear .v",
        is_slow=True,
    ),
    Trial(
        cause="git-not-installed",
        before="wheel tiny 1.0 ''",
        settings=f"{_OFFLINE}; only uv python sh; PATH=$PWD/.env/bin:$PATH",
        command="uv pip install ${WHAT-tiny@git+file:///srv/tiny}",
        advice="or install the package from an index",
        action="WHAT=tiny",
    ),
    Trial(
        cause="git-reference-missing",
        before="""
        git init -q tiny && cd tiny && touch file && git add . && git commit -qm first
        git tag v1.0""",
        command="git clone -b ${TAG-v9.0} file://$PWD/tiny copy",
        advice="use the tag of a release",
        action="TAG=$(git -C tiny tag)",
    ),
    Trial(
        cause="version-from-git",
        before=project("p", "from setuptools import setup\nsetup(name='p', use_scm_version=True)")
        + "\n(venv; pip install -q setuptools_scm)",
        settings="venv",
        command="cd p && python setup.py --version",
        typed="SETUPTOOLS_SCM_PRETEND_VERSION=",
        action="export {}",
        is_slow=True,
    ),
    Trial(
        cause="rust-toolchain-missing",
        before=project(
            "p",
            "from setuptools import setup\nfrom setuptools_rust import RustExtension\n"
            "setup(name='tiny', version='2.0', rust_extensions=[RustExtension('tiny')])",
        )
        + '\nprintf \'[package]\\nname="tiny"\\nversion="1.0.0"\\n\' > p/Cargo.toml'
        + "\nwheel tiny 1.0 ''; (venv; pip install -q setuptools_rust)",
        settings=_OFFLINE,
        command="pip install --no-build-isolation ${WHAT-./p}",
        advice="Use a release of the requirement with a wheel for this Python",
        action="WHAT=tiny==1.0",
        is_slow=True,
    ),
    Trial(
        cause="uv-too-old",
        before="(venv; pip install -q uv==0.4.0)",
        settings="venv",
        command="uv pip install --dry-run --torch-backend=auto pip",
        typed="pip install -U uv",
        is_slow=True,
    ),
    Trial(
        cause="extension-loaded-twice",
        before="""
        for name in mesh mesh_fork; do
            mkdir $name && cat > $name/module.cpp <<END
#include <pybind11/pybind11.h>
struct Mesh {};
PYBIND11_MODULE($name, m) { pybind11::class_<Mesh>(m, "Mesh"); }
END
            printf '%s\\n' 'from pybind11.setup_helpers import Pybind11Extension' \\
                'from setuptools import setup' \\
                "setup(name='$name', version='1', ext_modules=[Pybind11Extension('$name', \\
['module.cpp'])])" > $name/setup.py
        done
        (venv; pip install -q pybind11
        pip install -q --no-build-isolation ./mesh ./mesh_fork)""",
        settings="venv",
        command="""python -c '
import importlib.metadata
for name in ("mesh", "mesh_fork"):
    if any(one.metadata["Name"] == name for one in importlib.metadata.distributions()):
        __import__(name)'""",
        typed="pip list",
        advice="and uninstall one of the two",
        action="pip uninstall -y $({} | sed -n 's/^\\(mesh_fork\\) .*/\\1/p')",
        is_slow=True,
    ),
    Trial(
        cause="numpy-abi-mismatch",
        before="""(venv; pip install -q --ignore-installed --only-binary :all: numpy==2.0.2 && \\
            pip install -q --no-deps --only-binary :all: pandas==2.1.4 \\
            python-dateutil pytz six tzdata)""",
        settings="venv",
        command="python -c 'import pandas._libs.lib'",
        typed='pip install "numpy<2"',
        needs=("3.11",),
        is_slow=True,
    ),
    Trial(
        cause="lockfile-out-of-date",
        before="""
        printf '[project]\nname = "a"\nversion = "1"\nrequires-python = ">=3.9"\n' > pyproject.toml
        uv lock -q --offline && sed -i s/3.9/3.10/ pyproject.toml""",
        settings="export UV_OFFLINE=1",
        command="uv sync --locked",
        typed="uv lock",
    ),
    Trial(
        cause="pyproject-invalid",
        before="""
        mkdir data models && touch data/__init__.py models/__init__.py
        printf '[project]\\nname = "x"\\nversion = "1"\\n' > pyproject.toml""",
        command="python3 -c 'from setuptools import build_meta; build_meta.build_wheel(\".\")'",
        typed="py-modules = []",
        action="printf '[tool.setuptools]\\n{}\\n' >> pyproject.toml",
    ),
    Trial(
        cause="pyproject-invalid",
        before=project("p", _SETUP.replace("1.0", "1.0-dev-main+cu")),
        settings="venv",
        command="pip install ./p",
        advice="Write 1.0-dev-main.cu as `(?P<version>[^`]*)`",
        action="sed -i s/1.0-dev-main+cu/$version/ p/setup.py",
        is_slow=True,
    ),
    Trial(
        cause="python-version-unsupported",
        before=project(
            "p",
            _SETUP,
            f"[project]\nname = 'tiny'\nversion = '1.0'\nrequires-python = '<3.{_MINOR}'",
        ),
        settings='venv; export UV_PYTHON_DOWNLOADS=never PATH=$PATH:$(dirname "$PYTHON")',
        command="pip install ./p",
        typed="uv venv --python",
        action="{} && . .venv/bin/activate",
        again="uv pip install ./p",
        needs=(f"3.{_MINOR - 1}",),
        is_slow=True,
    ),
    Trial(
        cause="uv-build-metadata",
        before=project("p", "import torch\nfrom setuptools import setup\nsetup(name='tiny')")
        + """
        wheel torch 99.0 ''
        cat > pyproject.toml <<'END'
[project]
name = "user"
version = "1.0"
requires-python = ">=3.9"
dependencies = ["tiny", "torch"]
[tool.uv]
extra-build-dependencies = { tiny = [{ requirement = "torch", match-runtime = true }] }
[tool.uv.sources]
tiny = { path = "p" }
END""",
        settings="export UV_FIND_LINKS=$PWD/dist",
        command="uv sync",
        typed="PACKAGE = [",
        values={"PACKAGE": "tiny", "2.9.1": "99.0"},
        action="""
        sed -i '/^extra-build/d; s/^.tool.uv.$/[tool.uv.extra-build-dependencies]/' pyproject.toml
        sed -i '/^.tool.uv.extra/a {}' pyproject.toml""",
        is_slow=True,
    ),
    Trial(
        cause="error-not-shown",
        before=project("p", "raise SystemExit('no tile fits')"),
        settings="venv",
        command="pip install -q --no-build-isolation ./p > log || { echo 'ERROR: Failed building "
        "wheel for p'; exit 1; }",
        typed="pip install -v",
        values={"PACKAGE": "./p"},
        again="{}",
        then="no tile fits",
    ),
)
