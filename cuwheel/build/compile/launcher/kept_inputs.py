"""What a compile was made of, and what differs from the nearest earlier compile of its source.

Only where programs of a compiler ran: this is for `cache -- why`, and decides on no reuse. Records
are text, since any build of the recipe may have written them.
"""

from __future__ import annotations

import os

from cuwheel.build.compile.launcher import direct_mode, kept_files
from cuwheel.build.compile.memory_gate import event_log

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    from cuwheel.build.compile.launcher.rewrite import CompilerCommand, Settings

    _Inputs = dict[tuple[str, str], str]  # kind and name; the value, or a digest of it

_MOST_RECORDS = 8  # of one source: Pythons, lists of archs, frameworks
_MOST = 50  # differences that are noted
_LARGEST = 8 << 20  # bytes of a record; 2,000 headers of PyTorch are 0.3 MB
_FIELDS = 3  # of an input in a record
# In the order in which a person looks for a cause.
_ORDER = ("compiler", "Python", "packages", "archs", "flag", "variable", "source", "header")
# Headers of CCCL that put the list of all archs into the names of what they declare.
_NAMED_BY_ARCHS = ("/cub/util_namespace.cuh", "/thrust/detail/config/namespace.h")
_PYTHON = "/include/python"  # in the paths of Python's headers
_NO_CAUSE = ("-frandom-seed=", "--frandom-seed=")  # the launcher's own; it follows from the others


def note(name: str, command: CompilerCommand, settings: Settings, begin: int) -> None:
    """Note in the event log what differs, and keep the inputs.

    Args:
        name: id of the compile.
        begin: size of the event log when it started.
    """
    if not settings.inputs or not _has_run(settings.events, name, begin):
        return
    folder = f"{settings.inputs}/{_digest(command.source.encode('utf-8', 'surrogateescape'))}"
    now = _inputs_of(command, settings)
    kept = [record for record in map(_read, _newest(folder)) if record]
    nearest = min((_differences(record, now) for record in kept), key=len, default=[])
    fields: dict[str, object] = {
        "kind": "inputs",
        "compile": name,
        "known": int(bool(kept)),
        "differences": tuple(nearest[:_MOST]),
        "count": len(nearest),
    }
    event_log.append(settings.events, fields)
    _keep(folder, now)


def log_size(path: str) -> int:
    """Return the bytes of the event log; 0 where there is none."""
    try:
        return os.stat(path).st_size  # noqa: PTH116 - pathlib takes long to import
    except OSError:
        return 0


def _has_run(log: str, name: str, begin: int) -> bool:
    """Return True if a compiler's program has run for a compile."""
    try:
        lines = kept_files.read(log)[begin:].split(b"\n")
    except OSError:
        return False
    mark = f'"compile": "{name}"'.encode()
    return any(line.startswith(b'{"kind": "tool"') and mark in line for line in lines)


def _inputs_of(command: CompilerCommand, settings: Settings) -> _Inputs:
    """Return all that a compile was made of, as far as it is known."""
    found: _Inputs = {(kind, name): value for kind, name, value in settings.made_of}
    for flag in _flags(command.argv[1:]):
        if not flag.startswith(_NO_CAUSE):
            found["flag", flag] = ""
    for name, value in os.environ.items():
        if direct_mode.is_read(name):
            found["variable", name] = _digest(value.encode("utf-8", "surrogateescape"))
    source = os.path.abspath(command.source_path)  # noqa: PTH100 - pathlib takes long to import
    for path in _included(command) or direct_mode.known_files(settings):
        if os.path.abspath(path) == source:  # noqa: PTH100
            continue
        found["header", path] = _digest_of(path)
        if path.endswith(_NAMED_BY_ARCHS):
            found["archs", " ".join(command.archs)] = ""
    found["source", command.source_path] = _digest_of(command.source_path)
    return found


def _flags(words: list[str]) -> list[str]:
    """Return options, each with a value that may be a word of its own."""
    flags: list[str] = []
    for word in words:
        if flags and word[:1] != "-" and flags[-1][:1] == "-" and " " not in flags[-1]:
            flags[-1] += f" {word}"
        else:
            flags.append(word)
    return flags


def _included(command: CompilerCommand) -> list[str]:
    """Return the files in the depfile of a compile; nothing without one."""
    try:
        text = kept_files.read(command.depfile or "").decode("utf-8", "surrogateescape")
    except OSError:
        return []
    words = text.partition(": ")[2].replace("\\\n", " ").replace("\\ ", "\0").split()
    return [word.replace("\0", " ") for word in words if not word.endswith(":")]


def _digest(content: bytes) -> str:
    return kept_files.digest(content).hex()[:16]


def _digest_of(path: str) -> str:
    try:
        return _digest(kept_files.read(path))
    except OSError:
        return ""


def _differences(before: _Inputs, now: _Inputs) -> list[str]:
    """Return kind, change and name of each input that differs."""
    changes = []
    for kind, name in {*before, *now}:
        if before.get((kind, name)) == now.get((kind, name)):
            continue
        change = "changed"
        if (kind, name) not in before:
            change = "added"
        elif (kind, name) not in now:
            change = "removed"
        shown = "Python" if kind == "header" and _PYTHON in name else kind
        changes.append((_ORDER.index(shown), shown, change, name))
    return [" ".join(change[1:]) for change in sorted(changes)]


def _newest(folder: str) -> list[str]:
    """Return the records of a source, the newest first."""
    try:
        paths = [f"{folder}/{name}" for name in os.listdir(folder)]  # noqa: PTH208
        return sorted(paths, key=lambda path: -os.lstat(path).st_mtime_ns)
    except OSError:
        return []


def _read(path: str) -> _Inputs:
    try:
        if os.lstat(path).st_size > _LARGEST:
            return {}
        words = kept_files.read_parts(path)[0].decode("utf-8", "surrogateescape").split("\0")
    except (OSError, ValueError, IndexError):
        return {}
    triples = zip(*(words[start::_FIELDS] for start in range(_FIELDS)))
    return {(kind, name): value for kind, name, value in triples if kind in _ORDER}


def _keep(folder: str, inputs: _Inputs) -> None:
    words = [word for (kind, name), value in sorted(inputs.items()) for word in (kind, name, value)]
    content = "\0".join(words).encode("utf-8", "surrogateescape")
    kept_files.keep_parts(f"{folder}/{_digest(content)}", [content])
    for path in _newest(folder)[_MOST_RECORDS:]:
        kept_files.remove(path)
