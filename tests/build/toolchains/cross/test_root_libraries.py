"""Libraries of another kind of machine, from root folders in Debian's layout."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest

from cuwheel.build.recipe.platform import AARCH64
from cuwheel.build.toolchains.cross.root_libraries import (
    HEADERS,
    LIBRARIES,
    libraries_digest,
    library_folders,
    package_version,
    write_libraries,
)
from cuwheel.build.workspace.job import TargetRoot
from tests.support.packages.foreign_platform import compile_arm64, write_root
from tests.support.requirements import require

_LIBRARIES = "/usr/lib/aarch64-linux-gnu"
_LIST = """\
Package: libfftw3-dev
Status: install ok installed
Architecture: arm64
Version: 3.3.10-1
Description: headers
 more of it

Package: libgone-dev
Status: deinstall ok config-files
Version: 1.0

"""


@pytest.fixture
def root(tmp_path: Path) -> TargetRoot:
    """A root with one library of a package, its header, and a C library's."""
    root = write_root(tmp_path / "root", _LIBRARIES)
    headers = root.folder / "usr" / "include"
    files = {
        headers / "fftw3.h": "double one;",
        headers / "stdio.h": "not this one",
        headers / "aarch64-linux-gnu" / "fftw3-config.h": "int config;",
        headers / "aarch64-linux-gnu" / "python3.11" / "pyconfig.h": "",
        headers / "boost" / "deep" / "any.hpp": "",
        root.folder / _LIBRARIES[1:] / "libfftw3.so.3.6.10": "library",
        root.folder / _LIBRARIES[1:] / "libfftw3.a": "archive",
        root.folder / _LIBRARIES[1:] / "libc.so": "a script with paths",
        root.folder / _LIBRARIES[1:] / "libpython3.11.a": "",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    # As Debian has it where the library itself is in /lib.
    (root.folder / _LIBRARIES[1:] / "libfftw3.so").symlink_to(f"{_LIBRARIES}/libfftw3.so.3.6.10")
    return root


def written(folder: Path, root: TargetRoot) -> set[str]:
    write_libraries(folder, root, AARCH64)
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_takes_what_the_compiler_does_not_have(root: TargetRoot, tmp_path: Path) -> None:
    require("cross-gcc", "that a cross compiler's own C library is left out")

    assert written(tmp_path / "made", root) == {
        "include/boost/deep/any.hpp",
        "include/fftw3-config.h",
        "include/fftw3.h",
        "lib/libfftw3.a",
        "lib/libfftw3.so",
        "lib/libfftw3.so.3.6.10",
    }


def test_follows_links_of_that_root_and_none_that_leads_out(
    root: TargetRoot, tmp_path: Path
) -> None:
    folder = root.folder / _LIBRARIES[1:]
    (tmp_path / "secret.a").write_text("of this machine")
    (folder / "libsecret.a").symlink_to(f"../../../../{tmp_path.name}/../secret.a")
    (folder / "libround.a").symlink_to("libround.a")

    names = written(tmp_path / "made", root)

    assert (tmp_path / "made/lib/libfftw3.so").read_text() == "library"
    assert not {name for name in names if "secret" in name or "round" in name}


def test_digest_is_of_what_is_taken(root: TargetRoot) -> None:
    before = libraries_digest(root, AARCH64)
    (root.folder / "etc" / "motd").write_text("hello")
    same = libraries_digest(root, AARCH64)

    (root.folder / "usr" / "include" / "fftw3.h").write_text("double two;")

    assert before == same != libraries_digest(root, AARCH64)


def test_compiles_and_links_with_it(root: TargetRoot, tmp_path: Path) -> None:
    library = root.folder / _LIBRARIES[1:] / "libfftw3.so.3.6.10"
    compile_arm64(library, "-Wl,-soname,libfftw3.so.3", code="double fftw(void) { return 1; }")
    folder = tmp_path / "made"
    write_libraries(folder, root, AARCH64)
    flags = ("-idirafter", folder / HEADERS, "-L", folder / LIBRARIES)
    code = "#include <stdio.h>\n#include <fftw3.h>\ndouble fftw(void); double f(void) "
    code += '{ puts("x"); return fftw(); }'

    built = compile_arm64(tmp_path / "libuser.so", *flags, "-lfftw3", code=code)

    shown = subprocess.run(["readelf", "-d", built], capture_output=True, text=True, check=True)
    assert "[libfftw3.so.3]" in shown.stdout


def test_reads_version_in_the_list_of_a_whole_system(tmp_path: Path) -> None:
    status = tmp_path / "var" / "lib" / "dpkg" / "status"
    status.parent.mkdir(parents=True)
    status.write_text(_LIST)

    names = ("libfftw3-dev", "libgone-dev", "libfftw3")
    assert [package_version(tmp_path, name) for name in names] == ["3.3.10-1", "", ""]


def test_reads_version_in_the_changelog_of_what_was_unpacked(tmp_path: Path) -> None:
    docs = tmp_path / "usr" / "share" / "doc"
    (docs / "libfftw3-dev").mkdir(parents=True)
    log = docs / "libfftw3-dev" / "changelog.Debian.gz"
    log.write_bytes(gzip.compress(b"fftw3 (3.3.10-1) unstable; urgency=medium\n"))
    (docs / "libfftw3-bin").symlink_to("libfftw3-dev")

    names = ("libfftw3-dev", "libfftw3-bin", "libz-dev")
    assert [package_version(tmp_path, name) for name in names] == ["3.3.10-1", "3.3.10-1", ""]


def test_reads_version_of_a_rebuild_for_one_machine(tmp_path: Path) -> None:
    folder = tmp_path / "usr" / "share" / "doc" / "libz-dev"
    folder.mkdir(parents=True)
    for name, version in (("", "1.2"), (".arm64", "1.2+b1")):
        log = folder / f"changelog.Debian{name}.gz"
        log.write_bytes(gzip.compress(f"zlib ({version}) unstable\n".encode()))

    assert package_version(tmp_path, "libz-dev") == "1.2+b1"


def test_names_what_the_root_names_and_nothing_of_this_machine(tmp_path: Path) -> None:
    root = write_root(tmp_path, "/opt/vendor/lib", "/usr/lib/aarch64-linux-gnu")

    folders = library_folders(root, AARCH64)

    of_root = [path for path in folders if path.parts[-2:] != ("aarch64-linux-gnu", "lib")]
    assert of_root == [
        tmp_path / "opt/vendor/lib",
        tmp_path / "usr/lib/aarch64-linux-gnu",
        tmp_path / "usr/lib",
    ]


def test_follows_includes_within_the_root(tmp_path: Path) -> None:
    root = write_root(tmp_path, "/one")
    (tmp_path / "two").mkdir()
    (tmp_path / "etc/ld.so.conf.d").mkdir()
    (tmp_path / "etc/ld.so.conf.d/two.conf").write_text("/two\n")
    (tmp_path / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n/one\n")

    assert library_folders(root, AARCH64)[:2] == (tmp_path / "two", tmp_path / "one")
