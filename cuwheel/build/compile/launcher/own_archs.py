"""nvcc for a share of a compile: its steps for some archs, exactly as in the whole compile.

sccache asks nvcc for the commands of a compile (`--dryrun`), runs them, and looks up each one for
device code. In a shard it asks this program. The commands for other archs, and those that need the
device code of all, come back as ones that sccache counts but doesn't run: it numbers the files of a
compile in the order of their commands, so with the others missing no later compile would find these
results. All else is as without shards, also the list of archs that CUB puts into its names.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

VARIABLE = "CUWHEEL_ONLY_ARCHS"  # the archs of this share, `80 90a`; empty: all

_PREFIX = "#$ "  # of a command in nvcc's list
_DRY = "--dryrun"
# With one of these the program is asked for something else than a compile.
_NO_COMPILE = {"-E", "--preprocess", "-V", "--version", "-M", "-MM"}
LEFT = "cuwheel: sccache doesn't take this command apart: the build without --shard compiles it"
_OF_ALL = ("fatbinary", "nvlink")


def own_commands(text: str, archs: list[str], unrun: str) -> str:
    """Return nvcc's list of commands, those of other archs and the last ones replaced.

    Args:
        unrun: a program that sccache doesn't take for one of a compile's, and so doesn't run.
    """
    commands = [(line, _words(line)) for line in text.splitlines()]
    foreign: set[str] = set()
    for _, words in commands:
        if _name(words) == "cicc" and _arch(words) not in archs:
            foreign.update(word for word in words if word.endswith((".ii", ".ptx", ".ltoir")))
    kept = []
    for line, words in commands:
        if _name(words) in _OF_ALL or "-c" in words or not foreign.isdisjoint(words):
            files = [word for word in words[1:] if word[:1] != "-"]
            kept.append(_PREFIX + " ".join(map(shlex.quote, [unrun, *files])))
        else:
            kept.append(line)
    return "\n".join([*kept, ""])


def _words(line: str) -> list[str]:
    """Return the words of a command; nothing for a variable, or what isn't for a shell."""
    if not line.startswith(_PREFIX):
        return []
    try:
        return shlex.split(line[len(_PREFIX) :])
    except ValueError:
        return []


def _name(words: list[str]) -> str:
    return os.path.basename(words[0]) if words else ""  # noqa: PTH119 - as the launcher's scripts


def _arch(words: list[str]) -> str:
    """Return the arch for which cicc compiles, `90a`."""
    for place, word in enumerate(words):
        name, _, value = word.partition("=")
        if name == "-arch":
            return (value or "".join(words[place + 1 : place + 2])).rpartition("_")[2]
    return ""


def main(arguments: list[str], nvcc: str) -> int:
    """Run nvcc, but for other archs' commands; return its exit status.

    A compile that sccache doesn't take apart isn't done: no later one would find anything of it.
    """
    if _DRY not in arguments:
        if _NO_COMPILE.isdisjoint(arguments):
            print(LEFT, file=sys.stderr)
            return 0
        return subprocess.call([nvcc, *arguments])  # noqa: S603 - the build's
    done = subprocess.run([nvcc, *arguments], capture_output=True, check=False)  # noqa: S603 - as above
    sys.stdout.buffer.write(done.stdout)
    text = done.stderr.decode("utf-8", "surrogateescape")
    text = (
        text if done.returncode else own_commands(text, os.environ.get(VARIABLE, "").split(), nvcc)
    )
    sys.stderr.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.flush()
    sys.stderr.flush()
    return done.returncode
