"""Advice on builds."""

from __future__ import annotations

from pathlib import Path

from cuwheel.lab.profile.advice import advise
from tests.support.build.event_lines import (
    GIB,
    SOURCE,
    compile_line,
    timeline_of,
    tool_line,
    two_files,
)
from tests.support.golden import Golden

_LAST = compile_line(id="2", file=SOURCE + "b.cu", start=5, end=70)
_PTXAS = tool_line(name="ptxas", arch="100", asked=9, start=9, end=10)
_FAILED = [compile_line(id=f"{n}", file=f"{SOURCE}{n}.cu", status=1) for n in range(5)]


_BUILDS: dict[str, tuple[str, ...]] = {
    "two files": two_files(),
    "a slow tool": (tool_line(), _PTXAS, compile_line()),
    "a long last file": (compile_line(), _LAST),
    "waits for memory": (*two_files(), tool_line(asked=0, start=4, compile="3")),
    "out of memory": (tool_line(tries=3, peak=9 * GIB), compile_line()),
    "failures": tuple(_FAILED),
    "a pause": (compile_line(), compile_line(id="3"), compile_line(id="2", start=30, end=40)),
    "no cache": (compile_line(cached=""),),
    "all cached": (compile_line(),),
    "none cached": (tool_line(), compile_line()),
    "two languages": (tool_line(), compile_line(), compile_line(id="2", file="/b.cpp")),
    "a damaged log": (compile_line()[:30],),
}


def test_advises_on_what_a_build_shows(tmp_path: Path, golden: Golden) -> None:
    advice = [
        "\n".join((f"{name}:", *advise(timeline_of(tmp_path, *lines)), ""))
        for name, lines in _BUILDS.items()
    ]

    golden.check("profile/advice.txt", "\n".join(advice))
