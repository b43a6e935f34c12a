from __future__ import annotations

from cuwheel.base.system.process import run
from cuwheel.build.toolchains.system_programs import installed_version


def test_finds_version_of_installed_package() -> None:
    version = run(["/usr/bin/dpkg-query", "-W", "-f", "${Version}", "dpkg"], env={}).output

    assert installed_version("dpkg") == version


def test_finds_no_version_of_missing_package() -> None:
    assert installed_version("no-such-package") == ""
