"""Logs that cost `explain` the most: no line comes twice, and each one is an error of its own."""  # noqa: INP001 - a module of the benchmarks, which are no package

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping

from cuwheel.check.explain import catalogue

_SYLLABLES = (
    "al",
    "bo",
    "cu",
    "de",
    "fi",
    "gra",
    "hu",
    "ker",
    "lo",
    "mo",
    "nel",
    "op",
    "qua",
    "tor",
)
_PIECE = 1 << 20  # bytes that are made at once
_GNU = ("in this scope", "has no member named '{b}'", "no matching function for call to '{a}'")
_CUDA = ('identifier "{b}" is undefined', 'no instance of function template "{b}" matches')
_PYTHON = ("ModuleNotFoundError: No module named '{b}'", "RuntimeError: CUDA error: {b} in {a}")
_GERMAN = "{a}.cpp:{n}:{m}: Fehler: »{b}« wurde in diesem Gültigkeitsbereich nicht definiert\n"
_CHINESE = "/usr/bin/ld: {a}.o: in function `{b}': 对\u2018{a}::größe_{b}\u2019未定义的引用\n"
_UNKNOWN = "{a}.cu({n}): error: {b}\u4e2d\u6587_{a} ist kein Typ \U0001f4a5\n"

Words = Mapping[str, str | int]


def hostile_log(kind: str, size: int) -> Iterator[bytes]:
    """Yield a log of a kind and a size in bytes, the same one each time."""
    chance = random.Random(kind)  # noqa: S311 - the same log each time
    made = 0
    for piece in KINDS[kind](chance):
        yield piece[: size - made]
        made += len(piece)
        if made >= size:
            return


def _words(chance: random.Random) -> Words:
    """Return names that no other line has, and numbers."""
    name = ["".join(chance.choices(_SYLLABLES, k=5)) for _ in range(3)]
    return dict(zip("abc", name, strict=True)) | {
        "n": chance.randrange(1, 5_000),
        "m": chance.randrange(1, 90),
    }


def _of(*templates: str) -> Callable[[random.Random], Iterator[bytes]]:
    """Return a maker of logs whose messages are the templates, each time with other names."""

    def pieces(chance: random.Random) -> Iterator[bytes]:
        while True:
            lines, length = [], 0
            while length < _PIECE:
                lines.append(chance.choice(templates).format_map(_words(chance)))
                length += len(lines[-1])
            yield "".join(lines).encode()

    return pieces


def _catalogue_samples(chance: random.Random) -> Iterator[bytes]:
    """Yield the catalogue's samples, with a new word in each line."""
    samples = [sample for cause in catalogue.causes().values() for sample in cause.examples]
    while True:
        lines = []
        for line in "\n".join(chance.sample(samples, len(samples))).split("\n"):
            words = line.split(" ")
            words.insert(len(words) // 2, str(_words(chance)["a"]))
            lines.append(" ".join(words))
        yield "\n".join([*lines, ""]).encode()


def _catalogue_texts(longest: int) -> Callable[[random.Random], Iterator[bytes]]:
    """Return a maker of lines of random texts that the catalogue searches for."""

    def pieces(chance: random.Random) -> Iterator[bytes]:
        causes = catalogue.causes().values()
        texts = [text for cause in causes for one in cause.patterns for text in one.texts]
        while True:
            lines = [
                " ".join(chance.choices(texts, k=chance.randint(1, longest)))
                for _ in range(_PIECE // 200)
            ]
            yield "\n".join([*lines, ""]).encode("utf-8", "replace")

    return pieces


def _joined(end: bytes, *kinds: str) -> Callable[[random.Random], Iterator[bytes]]:
    """Return a maker of other logs' pieces by turns, with another end of their lines."""

    def pieces(chance: random.Random) -> Iterator[bytes]:
        makers = [KINDS[kind](chance) for kind in kinds]
        while True:
            yield next(chance.choice(makers)).replace(b"\n", end)

    return pieces


def _json_lines(chance: random.Random) -> Iterator[bytes]:
    """Yield a log collector's lines, some of them as a string alone."""
    for piece in KINDS["gcc"](chance):
        lines = []
        for number, line in enumerate(piece.decode().splitlines(keepends=True)):
            lines.append(json.dumps({"stream": "stderr", "log": line} if number % 3 else line))
        yield "\n".join([*lines, ""]).encode()


def _json_string(chance: random.Random) -> Iterator[bytes]:
    """Yield one string of JSON."""
    yield b'{"log": "'
    for piece in KINDS["gcc"](chance):
        yield json.dumps(piece.decode())[1:-1].encode()


def _utf_16(chance: random.Random) -> Iterator[bytes]:
    """Yield what PowerShell's redirection writes."""
    yield b"\xff\xfe"
    for piece in KINDS["gcc"](chance):
        yield piece.decode().encode("utf-16-le")


def _mixed_lines(chance: random.Random) -> Iterator[bytes]:
    """Yield lines of all tools' logs, mixed as by parallel jobs."""
    makers = [KINDS[kind](chance) for kind in ("gcc", "nvcc", "ld", "pip", "python", "cmake")]
    while True:
        lines = [line for maker in makers for line in next(maker).splitlines(keepends=True)]
        chance.shuffle(lines)
        yield b"".join(lines)


KINDS: Mapping[str, Callable[[random.Random], Iterator[bytes]]] = {
    "gcc": _of(
        *(
            f"{{a}}/{{c}}.cpp:{{n}}:{{m}}: error: '{{b}}' was not declared {text}\n"
            "  {n} |   {b}({c});\n      |   ^~~~~~\n"
            for text in _GNU
        )
    ),
    "nvcc": _of(
        *(f"/build/{{a}}/{{c}}.cu({{n}}): error: {text}\n\n" for text in _CUDA),
        "nvcc fatal   : Unsupported gpu architecture 'compute_{b}'\n",
        "ptxas {a}.ptx, line {n}; error   : Feature '{b}' requires .target sm_90 or higher\n",
    ),
    "ld": _of(
        "/usr/bin/ld: {a}.o: in function `{b}':\n{a}.cpp:(.text+0x{n}): "
        "undefined reference to `{c}'\n",
        "/usr/bin/ld: cannot find -l{a}: No such file or directory\n",
        "ImportError: /opt/{a}/{b}.so: undefined symbol: _ZN{n}{c}Ev\n",
    ),
    "pip": _of(
        "ERROR: Could not find a version that satisfies the requirement "
        "{a}=={n} (from versions: none)\n"
        "ERROR: No matching distribution found for {a}=={n}\n",
        "ERROR: {a} {n}.{m} has requirement {b}<{m}, but "
        "you'll have {b} {n} which is incompatible.\n",
        "Collecting {a}\n  Using cached {a}-{n}.{m}.tar.gz\n"
        "  error: subprocess-exited-with-error\n",
    ),
    "python": _of(
        *(
            "Traceback (most recent call last):\n"
            '  File "/{a}/{c}.py", line {n}, in {b}\n    {b}({c})\n'
            f"{text}\n"
            for text in _PYTHON
        ),
        "{a}.{b}Error: {c} failed\n\nDuring handling of the above exception, another exception "
        "occurred:\n\n",
        "{a}.NoSuch{b}: {c}\n",
    ),
    "cmake": _of(
        "CMake Error at {a}/CMakeLists.txt:{n} (find_package):\n"
        '  Could not find a package configuration file provided by "{b}" with any of\n\n',
        "CMake Error at {a}.cmake:{n} (message):\n  {b} not found: {c}\n\n",
        "-- Configuring incomplete, errors occurred!\n",
    ),
    "short lines": _of("error: {b}\n", "{a}: not found\n", "fatal: {c}\n"),
    "commands in commands": _of(
        "$ pip install {a}\nCollecting {a}\n  Building wheel for {a} (pyproject.toml): started\n"
        "error: {b}\n  Building wheel for {a} (pyproject.toml): finished with status 'done'\n",
        "+ make {c}\nmake[{m}]: *** [{b}.o] Error {n}\n",
        "$ cmake {a}\n-- Build files have been written to: /{b}\n",
        "Successfully installed {a}-{n} {b}-{m}\n",
        "command {a} failed, retrying\n",
    ),
    "deep trees": _of(
        "In file included from /{a}/{b}/{c}/{b}/{c}/{a}.h:{n},\n"
        "                 from /{c}/{b}/{a}/{b}/{a}/{c}.cuh:{m}:\n",
        "make[{m}]: Entering directory '/{a}/{b}/{c}/{b}/{a}'\nmake[{m}]: *** [{a}/{b}] Error 2\n",
        "make[{m}]: *** No rule to make target '{a}/{b}', needed by '{c}'.  Stop.\n",
    ),
    "ninja": _of(
        "[{n}/9000] /usr/local/cuda-12.4/bin/nvcc -I/{a}/include -I/{b}/include -gencode "
        "arch=compute_{m},code=sm_{m} -c /{a}/{c}.cu -o {c}.o\n",
        "FAILED: {a}/{b}.o \n",
        '{a}.cu({n}): error: no operator "{b}" matches these operands\n',
        "{a}.cpp:{n}:{m}: warning: unused variable '{b}' [-Wunused-variable]\n",
        "ninja: build stopped: subcommand failed.\n",
    ),
    "unicode": _of(_GERMAN, _CHINESE, _UNKNOWN),
    "advice": _of(
        "hint: {a} needs {b}\n", "You need to set {a} to {b}\n", "try using {c} for {b}\n"
    ),
    "mixed lines": _mixed_lines,
    "catalogue's samples": _catalogue_samples,
    "catalogue's texts": _catalogue_texts(6),
    "catalogue's texts, long lines": _catalogue_texts(60),
    "one line": _joined(b" ", "gcc", "ld", "python"),
    "carriage returns": _joined(b"\r", "gcc", "nvcc", "ld"),
    "JSON lines": _json_lines,
    "one JSON string": _json_string,
    "UTF-16": _utf_16,
    "colours": _joined(b"\x1b[0m\n\x1b[31m", "gcc", "nvcc"),
}
