"""Direct mode: objects of compiles that were done before with all the same inputs.

A compile cache preprocesses each source to see its content, for CUDA once for each arch and once
more for the host: 1 to 4 seconds of PyTorch's headers. What ccache and sccache call their direct
mode looks at the headers of the last time instead, and so misses a new header that is found before
them. Here the key holds everything that a compile could read: the command, the variables, the
engine's digest of toolkit, packages and system headers (`direct_identity`), and each file of the
package's own folders that may be included. docs/adr/0016.
"""

from __future__ import annotations

import marshal
import os
import time

from cuwheel.build.compile.launcher import kept_files

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cuwheel.build.compile.launcher.rewrite import CompilerCommand, Settings

    # By path: what shows that a file was touched, its digest, the suffixes that it includes.
    _Known = dict[str, tuple[tuple[int, ...], bytes, tuple[str, ...]]]
_FORMAT = "1"  # raise it when entries of an older cuwheel must not be used
_LARGEST = 64 << 20  # bytes of a file that may be included
_LISTED = 5_000  # files of `known_files`
_TICK = 1_000_000_000  # ns: a file that was touched so shortly ago is read again

# Variables that no compiler reads, or whose value differs in each build without effect.
_NOT_COMPILERS = ("CUWHEEL_", "SCCACHE_", "CCACHE_", "NINJA_", "MAKE", "MFLAGS", "GNUMAKEFLAGS")
_NOT_COMPILERS_NAMES = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})

# Words with which a compiler reads or writes more than the source, what it includes and the object.
_MORE_FILES = tuple(
    """
    --sysroot -isysroot -iprefix -iwithprefix -Wp, -Xpreprocessor save-temps split-dwarf coverage
    -fprofile -fauto-profile -fdump -fplugin stack-usage callgraph-info -specs -wrapper -aux-info
    -dumpbase -dumpdir -keep time-trace -time -opt-info -optf options-file -fmodules -gen-opt
    qpp-config -foptimization-record -fsave-optimization-record -fopt-info
    """.split()  # noqa: SIM905 - quotes around each word would hide the words
)
# Variables with folders of headers (GCC's manual, "Environment Variables Affecting GCC").
_FOLDER_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")

# Files that no other one includes, by how they end, unless a directive names such an end.
_OUTPUTS = frozenset(
    """
    .o .obj .d .so .a .pyc .ninja .ninja_deps .ninja_log .log .lock .whl .tmp .make .marks .rsp
    .i .ii .ptx .cubin .fatbin .module_id .gpu .sass .resp
    """.split()  # noqa: SIM905 - likewise; the second row: "nvcc --help", --keep
)
_SOURCES = frozenset((".cu", ".c", ".cc", ".cp", ".cpp", ".cxx", ".c++", ".C", ".CPP"))
_SOURCES |= {".s", ".S", ".sx"}
_OTHERS = frozenset(
    """
    .py .pyi .pyx .md .rst .yml .yaml .toml .cfg .sh .cmake .ipynb .png .jpg .svg .gif .pdf
    """.split()  # noqa: SIM905 - likewise
)
_UNREAD = _OTHERS | {".txt", ".json", ".csv"}  # files whose `# include` is no directive
_ANY = "*"  # a file that is included by a macro's value
_BINARY = "incbin"  # a file that the assembler takes in, whatever it is


def restore(entry: str, command: CompilerCommand) -> bool:
    """Write the files and messages of a compile, if its entry is kept and whole."""
    try:
        object_file, depfile, *messages = kept_files.read_parts(entry)
        kept_files.replace(command.output, object_file)
        if command.depfile:
            kept_files.replace(command.depfile, depfile)
        for file, text in enumerate(messages, 1):
            kept_files.write_all(file, text)
    except (OSError, ValueError):
        return False
    return True


def keep(entry: str, command: CompilerCommand, held: tuple[int, ...]) -> None:
    """Keep the files and messages of a compile; a full disk is no reason for it to fail."""
    paths = (command.output, command.depfile)
    try:
        parts = [kept_files.read(path) if path else b"" for path in paths]
        parts += [kept_files.read_held(file) for file in held]
    except OSError:
        return
    kept_files.keep_parts(entry, parts)


def find_entry(command: CompilerCommand, environment: Mapping[str, str], settings: Settings) -> str:
    """Return the file in which the object of a compile is kept, or would be.

    Returns:
        Nothing where not everything is known that the compile reads or writes.
    """
    if not settings.objects or not command.output or command.depfile is None:
        return ""
    if any(mark in word for word in command.argv[1:] for mark in _MORE_FILES):
        return ""
    try:
        roots = _own_folders(command, environment, settings)
        tree = _tree_digest(roots, {_end_of(path) for path in command.forced}, settings)
        source = kept_files.digest(kept_files.read(command.source_path))
        folder = os.getcwd()  # noqa: PTH109
    except (OSError, ValueError):
        return ""
    variables = sorted(pair for pair in environment.items() if is_read(pair[0]))
    parts = [_FORMAT, settings.identity, folder, *command.argv, ""]
    parts += [f"{name}={value}" for name, value in variables]
    text = "\0".join(parts).encode("utf-8", "surrogateescape")
    key = kept_files.digest(tree + source + text).hex()
    return f"{settings.objects}/{key[:2]}/{key[2:]}.object"


def is_read(name: str) -> bool:
    """Return True for a variable that a compiler may read."""
    if name == "CUWHEEL_EPOCH":  # from which gated compilers set SOURCE_DATE_EPOCH
        return True
    return not name.startswith(_NOT_COMPILERS) and name not in _NOT_COMPILERS_NAMES


def known_files(settings: Settings) -> list[str]:
    """Return the files of the package that may be included, where it is small."""
    try:
        return [path for path, stamp in _walk(settings.tree, (settings.tree,)) if stamp][:_LISTED]
    except (OSError, ValueError):
        return []


def _own_folders(
    command: CompilerCommand, environment: Mapping[str, str], settings: Settings
) -> list[str]:
    """Return the package's own folders that a compile may include from."""
    named = [*command.folders, os.path.dirname(command.source_path) or "."]  # noqa: PTH120
    for name in _FOLDER_VARIABLES:
        named += environment.get(name, "").split(":")
    roots = {settings.tree}
    for folder in filter(None, named):
        path = os.path.realpath(folder)
        if _top_of(path, (settings.tree, *settings.pinned)):
            continue
        top = _top_of(path, settings.scratch)
        if not top:
            raise ValueError(folder)
        first = path[len(top) + 1 :].partition("/")[0]
        roots.add(f"{top}/{first}")
    return sorted(roots)


def _top_of(path: str, folders: Iterable[str]) -> str:
    """Return the first of some folders that a path is below; empty: it is below none."""
    return next((folder for folder in folders if f"{path}/".startswith(f"{folder}/")), "")


def _tree_digest(roots: list[str], forced: set[str], settings: Settings) -> bytes:
    """Return a digest over the names and contents of all files that may be included by another one.

    Raises:
        OSError: one can't be read.
        ValueError: a link leads to a folder of which nothing is known, or something is included
            that isn't looked at.
    """
    memory = f"{os.environ.get('TMPDIR') or '/tmp'}/cuwheel-tree.{len(roots)}.tmp"  # noqa: S108
    try:
        known: _Known = dict(marshal.loads(kept_files.read(memory)))  # noqa: S302 - this build's own
    except (OSError, ValueError, EOFError, TypeError):
        known = {}
    files: dict[str, bytes] = {}
    links = []
    ends = set(forced)
    clock = time.time_ns()
    for root in roots:
        for path, stamp in _walk(root, (*roots, *settings.pinned)):
            if not stamp:
                links.append(f"{path}\0{os.readlink(path)}")  # noqa: PTH115
                continue
            if path not in known or known[path][0] != stamp:
                text = kept_files.read(path)
                is_settled = stamp[-1] < clock - _TICK
                known[path] = (
                    stamp if is_settled else (),
                    kept_files.digest(text),
                    _ends_included(path, text),
                )
            files[path] = known[path][1]
            ends.update(known[path][2])
    kept_files.keep(memory, marshal.dumps({path: known[path] for path in files}))
    if not ends.isdisjoint(_OUTPUTS | {_BINARY}):
        raise ValueError("includes what isn't looked at")
    state = kept_files.hashed("\0".join(sorted(links)).encode("utf-8", "surrogateescape"))
    for path in sorted(files):
        if _may_be_included(path, ends):
            state.update(path.encode("utf-8", "surrogateescape") + b"\0" + files[path])
    return bytes(state.digest())


def _may_be_included(path: str, ends: set[str]) -> bool:
    end = _end_of(path)
    if end in ends or _ANY in ends or not ends.isdisjoint(_UNREAD):
        return True
    return end not in _SOURCES and end not in _OTHERS


def _walk(folder: str, elsewhere: tuple[str, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield each file that may be included or may include, with what shows that it was touched.

    A link to a folder comes with nothing.

    Args:
        elsewhere: folders that a link may lead to, since they are looked at anyway.

    Raises:
        OSError: something can't be read.
        ValueError: a link leads to another folder, or a file is too large to be read each time.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.is_symlink():
                    if not _top_of(os.path.realpath(entry.path), elsewhere):
                        raise ValueError(entry.path)
                    yield entry.path, ()
                elif entry.name != ".git":
                    yield from _walk(entry.path, elsewhere)
            elif _end_of(entry.name) not in _OUTPUTS and entry.is_file():
                status = entry.stat()
                if status.st_size > _LARGEST:
                    raise ValueError(entry.path)
                stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                yield entry.path, stamp


def _ends_included(path: str, text: bytes) -> tuple[str, ...]:
    """Return the suffixes of the files that a file includes; `_ANY` or `_BINARY` if unknown."""
    if _end_of(path) in _UNREAD:
        return ()
    ends = set()
    if b"incbin" in text:
        ends.add(_BINARY)
    for word in (b"include", b"embed"):
        start = text.find(word)
        while start != -1:
            before = text[max(start - 40, 0) : start].rstrip(b" \t")
            operand = text[start + len(word) : start + len(word) + 300].removeprefix(b"_next")
            operand = operand.lstrip(b" \t(")
            close = {b"<": b">", b'"': b'"'}.get(operand[:1])
            if close:
                name = operand[1:].partition(close)[0]
                ends.add(_end_of(name.decode("utf-8", "surrogateescape")))
            elif before.endswith((b"#", b"__has_")):
                ends.add(_ANY)
            start = text.find(word, start + 1)
    return tuple(sorted(ends))


def _end_of(path: str) -> str:
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return name[dot:] if dot >= 0 else ""
