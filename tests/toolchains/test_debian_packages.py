from __future__ import annotations

from cuwheel.system.process import run
from cuwheel.toolchains.debian_packages import installed_version


def test_tells_version_of_what_is_installed() -> None:
    said = run(["/usr/bin/dpkg-query", "-W", "-f", "${Version}", "dpkg"], env={}).output

    assert installed_version("dpkg") == said


def test_tells_nothing_of_what_is_not() -> None:
    assert installed_version("no-such-package") == ""
