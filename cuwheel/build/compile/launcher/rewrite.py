"""Command lines that the launcher runs in a compiler's place, giving equal bytes everywhere.

The changes to nvcc's arguments and their reasons: docs/adr/0015.
"""

from __future__ import annotations

import os

from cuwheel.build.compile.launcher import command_line
from cuwheel.build.compile.launcher.cxx_standard import raise_host_standard, raise_nvcc_standard

# Taken out of nvcc's command line. -lineinfo writes absolute paths and time stamps that no prefix
# map reaches; `launch` gives threads, where no cache looks at them; split compilation changes the
# code with its number; a seed of the package's would be one for all its files.
_LINE_INFO = {"-lineinfo", "--generate-line-info"}
_DROPPED = {
    *_LINE_INFO,
    *("-jobserver", "--jobserver", "-t", "--threads", "-split-compile", "--split-compile"),
    *("-split-compile-extended", "--split-compile-extended", "-frandom-seed", "--frandom-seed"),
}
_ARCHS = {"-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code"}
_KINDS = frozenset({"sm", "compute", "lto"})
_VIRTUAL = frozenset({"compute"})
_HOST_OPTIONS = {"-Xcompiler", "--compiler-options"}
_HOST_COMPILER = {"-ccbin", "--compiler-bindir"}
# ccache 4.14 knows ptxas' options in one word only. sccache 0.16 takes the value of the others, as
# a word of its own, for a second source.
_JOINED = {
    *("-Xptxas", "--ptxas-options", "-std", "--std", "-O", "--optimize", "-m", "--machine"),
    *("-cudart", "--cudart", "-cudadevrt", "--cudadevrt", "-fmad", "--fmad", "-ftz", "--ftz"),
    *("-prec-div", "--prec-div", "-prec-sqrt", "--prec-sqrt", "-diag-error", "--diag-error"),
    *("-diag-warn", "--diag-warn", "-diag-suppress", "--diag-suppress", "-compress-mode"),
    *("--compress-mode", "--static-global-template-stub", "--device-entity-has-hidden-visibility"),
}
# Symbols name nvcc's temporary files, and sccache names these differently. They are removed at the
# link and not only when the wheel is repaired: the linker's build id is a hash over them.
_SHARED = {"-shared", "--shared"}
_INCLUDES = {"-I", "-isystem", "--include-path", "--system-include", "-iquote", "-idirafter"}
_LIBRARY_FOLDERS = ("-L", "--library-path=")
_DEFINES = {"-D", "--define-macro", "-U", "--undefine-macro"}
_OUTPUT = {"-o", "--output-file"}
_FORCED = {"-include", "--pre-include", "-imacros"}
# Starts of other options that may name folders or files to include: GCC's manual, "Options for
# Directory Search" and "Options Controlling the Preprocessor".
_MAY_INCLUDE = ("-i", "-I", "--i", "-B", "--prefix", "-Wa,", "-Wp,", "@", "--sysroot")
_DEPFILE = {"-MF", "--dependency-output"}
_WRITES_DEPFILE = {
    *("-MD", "--generate-dependencies-with-compile"),
    *("-MMD", "--generate-nonsystem-dependencies-with-compile"),
}
_NATIVE = {"-march=native", "-mtune=native", "-mcpu=native"}

_COMPILES = {"-c", "--compile", "-dc", "--device-c", "-dw", "--device-w"}
_MAKES_NO_OBJECT = {
    *("-E", "--preprocess", "-M", "--generate-dependencies", "-MM", "-S", "-fsyntax-only"),
    *("--generate-nonsystem-dependencies", "-dryrun", "--dryrun", "-clean", "--clean-targets"),
    *("-h", "--help", "-V", "--version", "-###"),
}

# Characters of a path that nvcc, and the shell that it calls, take as they are.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:@%=")
_OF_LISTS = frozenset('\\,"')  # special in a list of options for another program


class Refusal(Exception):  # noqa: N818 - it is no error of ours
    """A command line that must not run; its text is the whole message."""


class Settings:
    """The settings of the launcher in one build.

    Attributes:
        cache: the words that go before a compiler, `ccache` or `sccache`; empty without a cache.
        nvcc_of_shares: nvcc for some archs of a compile (`own_archs`).
        host: the gated compiler for each of `cc` and `cxx`.
        standins: paths that mean one of these: the launcher's own shims and the real compilers.
        moves_libraries: True if `moves` hold for libraries too: the packages there are those of
            another kind of machine.
        flags: nvcc's options for equal bytes that this toolkit has.
        standard: the oldest C++ standard of a compile, `20`; empty: any.
        events: the event log; empty for none.
        objects: folder with objects of earlier compiles (`direct_mode`); empty for none.
        identity: digest of the content of all `pinned` folders.
        inputs: folder with what earlier compiles were made of (`kept_inputs`); empty for none.
        made_of: kind, name and digest of what all compiles share: compiler, Python, packages.
    """

    cache: tuple[str, ...] = ()
    nvcc: str = ""
    nvcc_of_shares: str = ""
    host: dict[str, str] = {}  # noqa: RUF012 - a plain namespace, read from a generated module
    standins: dict[str, str] = {}  # noqa: RUF012
    maps: tuple[tuple[str, str], ...] = ()
    moves: tuple[tuple[str, str], ...] = ()
    moves_libraries: bool = False
    flags: tuple[str, ...] = ()
    standard: str = ""
    events: str = ""
    objects: str = ""
    identity: str = ""
    inputs: str = ""
    made_of: tuple[tuple[str, str, str], ...] = ()
    pinned: tuple[str, ...] = ()
    tree: str = ""
    scratch: tuple[str, ...] = ()


class CompilerCommand:
    """A program with its arguments, and what is known of them.

    Attributes:
        source: the compiled file, by the name that objects get to see; empty where it isn't one
            file that becomes one object.
        source_path: the same, by its own name.
        output: the object, where it has a name; else empty.
        is_by_arch: True if each of its archs has device code of its own, by commands of its own.
        folders: searched for included files, by options and by the paths of forced includes.
        depfile: the file that gets the names of what was included; empty: none; None: one whose
            name isn't on the command line.
    """

    def __init__(
        self, argv: list[str], source: str = "", output: str = "", archs: tuple[str, ...] = ()
    ) -> None:
        self.argv = argv
        self.source = source
        self.output = output
        self.archs = archs
        self.dropped: tuple[str, ...] = ()
        self.is_by_arch = False
        self.source_path = ""
        self.folders: tuple[str, ...] = ()
        self.forced: tuple[str, ...] = ()
        self.depfile: str | None = None


def nvcc_command(arguments: list[str], settings: Settings) -> CompilerCommand:
    """Return the command that runs in nvcc's place.

    Raises:
        Refusal: the arguments are for code for this machine's own GPU or processor.
    """
    original = command_line.read_nvcc(command_line.with_nvcc_files(_folded(arguments)))
    read = [word for word in original if word.name not in _DROPPED]
    _refuse_native(read)
    sources = command_line.nvcc_sources(read)
    read = raise_nvcc_standard(read, sources, settings.standard)
    read = [_joined(_moved(word, settings)) for word in _with_host_compiler(read, settings)]
    argv = [settings.nvcc, *_flat(read)]
    if any(word.name in _SHARED for word in read):
        argv += ["-Xlinker", "-s"]
    argv = _libraries_moved(argv, settings)
    if not sources:
        return CompilerCommand(argv)
    argv += _for_equal_bytes(sources, read, settings)
    command = _compile(argv, sources, read, settings)
    command.dropped = tuple(sorted({word.name for word in original} & _LINE_INFO))
    is_cuda = sources[0].endswith(".cu") or any(word.value == "cu" for word in read)
    # Machine code for sm_86 of PTX for compute_80 has no commands of its own to make PTX.
    is_own = command.archs == _archs(read, _VIRTUAL)
    command.is_by_arch = is_cuda and is_own and bool(command.archs[1:])
    return command


def host_command(name: str, arguments: list[str], settings: Settings) -> CompilerCommand:
    """Return the command that runs in the place of gcc or g++.

    Raises:
        Refusal: the arguments are for code for this machine's own processor.
    """
    compiler = settings.host["cxx" if name.endswith("++") else "cc"]
    read = command_line.read_host(command_line.with_host_files(arguments))
    _refuse_native(read)
    sources = command_line.host_sources(read)
    stripped = ["-s"] * any(word.name in _SHARED for word in read)
    if not sources:  # a long list of objects stays in its file
        return CompilerCommand([compiler, *_libraries_moved(arguments, settings), *stripped])
    read = raise_host_standard(name, read, sources, settings.standard)
    argv = [compiler, *_flat([_moved(word, settings) for word in read]), *stripped]
    argv += [f"-ffile-prefix-map={private}={public}" for private, public in settings.maps]
    # The names of static constructors' functions hold a random number where nothing else is unique.
    argv.append(f"-frandom-seed={_seed(sources, read, settings)}")
    return _compile(argv, sources, read, settings)


def _compile(
    argv: list[str], sources: list[str], read: list[command_line.Word], settings: Settings
) -> CompilerCommand:
    names = {word.name for word in read}
    if sources[1:] or sources == ["-"] or not names & _COMPILES or names & _MAKES_NO_OBJECT:
        return CompilerCommand(argv)
    output = _last_value(read, _OUTPUT)
    command = CompilerCommand(argv, public_path(sources[0], settings), output, _archs(read))
    command.source_path = sources[0]
    command.folders = tuple(_folders(read))
    command.forced = tuple(word.value for word in read if word.name in _FORCED)
    command.depfile = _last_value(read, _DEPFILE) or None if names & _WRITES_DEPFILE else ""
    return command


def _last_value(read: list[command_line.Word], names: set[str]) -> str:
    values = [word.value for word in read if word.name in names]
    return values[-1] if values else ""


def _folders(read: list[command_line.Word]) -> list[str]:
    """Return the folders that a compile searches for included files; `/` where unknown."""
    named = [word.value for word in read if word.name in _INCLUDES]
    # One without a folder is searched for where the compiler was started.
    forced = [os.path.dirname(word.value) or "." for word in read if word.name in _FORCED]  # noqa: PTH120
    options = [word.name for word in read if word.name not in _INCLUDES | _FORCED]
    for word in read:
        if word.name in _HOST_OPTIONS:
            text = word.value
            for separator in ",\"'\\\t":
                text = text.replace(separator, " ")
            options += text.split()
    hidden = any(option.startswith(_MAY_INCLUDE) for option in options)
    return [*named, *forced, *(["/"] if hidden else [])]


def _flat(read: list[command_line.Word]) -> list[str]:
    return [part for word in read for part in word.words]


def public_path(source: str, settings: Settings) -> str:
    """Return a path as it would be in the sandbox: the same on every machine."""
    path = os.path.realpath(source)
    for private, public in reversed(settings.maps):  # the longest first
        if path.startswith(f"{private}/"):
            return public + path[len(private) :]
    return path


def _folded(arguments: list[str]) -> list[str]:
    """Add the options that nvcc reads from variables, where caches don't look for them."""
    before = os.environ.pop("NVCC_PREPEND_FLAGS", "")
    after = os.environ.pop("NVCC_APPEND_FLAGS", "")
    texts = [command_line.split(text, '"', verbatim=True) for text in (before, after)]
    return [*texts[0], *arguments, *texts[1]]


def _refuse_native(read: list[command_line.Word]) -> None:
    """Refuse code for the build machine's own GPU or processor: it is for no other machine."""
    for word in read:
        options = {word.name}
        if word.name in _HOST_OPTIONS:
            options = set(word.value.replace(",", " ").split())
        is_device = word.name in _ARCHS and "native" in word.value.replace("=", ",").split(",")
        if is_device or options & _NATIVE:
            raise Refusal(
                f"cuwheel: refused {' '.join(word.words)}\ncuwheel: because  it compiles for the "
                "CPU of the build machine, and the wheel might not run on others\ncuwheel: to "
                "fix   give the package the target's archs, or plain x86-64 flags, in the recipe's "
                "`build`; or patch the option out"
            )


def _with_host_compiler(
    read: list[command_line.Word], settings: Settings
) -> list[command_line.Word]:
    """Have nvcc call the gated compiler, for each of its names."""
    gated = settings.host["cxx"]
    if not any(word.name in _HOST_COMPILER for word in read):
        return [*read, command_line.Word(["-ccbin", gated], "-ccbin", gated)]
    return [
        word.with_value(_gated(word.value, settings)) if word.name in _HOST_COMPILER else word
        for word in read
    ]


def _gated(compiler: str, settings: Settings) -> str:
    """Return the stand-in of a host compiler: itself, where it isn't the build's."""
    if os.path.isdir(compiler):  # noqa: PTH112 - in a folder nvcc calls gcc
        compiler = f"{compiler.rstrip('/')}/gcc"
    known = settings.standins
    if compiler in known:
        return known[compiler]
    real = os.path.realpath(compiler)
    same = (standin for path, standin in known.items() if os.path.realpath(path) == real)
    return next(same, compiler)


def _joined(word: command_line.Word) -> command_line.Word:
    """Write an option as one word where a cache knows no other form, and then caches nothing."""
    if word.name not in _JOINED or len(word.words) == 1:
        return word
    return command_line.Word([f"{word.name}={word.value}"], word.name, word.value)


def _moved(word: command_line.Word, settings: Settings) -> command_line.Word:
    """Replace a folder of headers by the one path that serves every Python."""
    return word.with_value(_moved_path(word.value, settings)) if word.name in _INCLUDES else word


def _libraries_moved(argv: list[str], settings: Settings) -> list[str]:
    """Replace folders and files of packages by those of the machine that the code is for."""
    if not settings.moves_libraries:
        return argv
    moved = []
    for word in argv:
        option = next((prefix for prefix in _LIBRARY_FOLDERS if word.startswith(prefix)), "")
        moved.append(option + _moved_path(word[len(option) :], settings))
    return moved


def _moved_path(path: str, settings: Settings) -> str:
    for private, public in settings.moves:
        if f"{path}/".startswith(f"{private}/"):
            return public + path[len(private) :]
    return path


def _for_equal_bytes(
    sources: list[str], read: list[command_line.Word], settings: Settings
) -> list[str]:
    added = []
    if "seed" in settings.flags:
        added.append(f"-frandom-seed={_seed(sources, read, settings)}")
    if "objtemp" in settings.flags and any(word.name in _COMPILES for word in read):
        added.append("-objtemp")
    if "path" in settings.flags and not sources[1:]:
        public = _spelled(public_path(sources[0], settings))
        added += ["-Xcudafe", f"--orig_src_path_name={public}"]
    for private, public in settings.maps:
        added += ["-Xcompiler", _quoted(f"-ffile-prefix-map={private}={public}")]
    return added


def _seed(sources: list[str], read: list[command_line.Word], settings: Settings) -> str:
    """Return a seed for each object: a library may compile a source twice, with other macros.

    What differs without effect, such as include folders and the name of the object, is left out:
    compile caches look at the seed.
    """
    parts = [public_path(source, settings) for source in sources]
    parts += [f"{word.name}{word.value}" for word in read if word.name in _DEFINES]
    text = "\0".join(parts)
    for private, public in reversed(settings.maps):
        text = text.replace(private, public)
    digest = 0x811C9DC5  # FNV-1a; modules with a digest take long to import
    for byte in text.encode("utf-8", "surrogateescape"):
        digest = (digest ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{_spelled(parts[0])}-{digest:08x}"


def _spelled(path: str) -> str:
    """Return a path in plain characters, for where it only has to be unique."""
    return "".join(letter if letter in _PLAIN else f"%{ord(letter):x}" for letter in path)


def _quoted(option: str) -> str:
    """Return an option quoted so that nvcc's shell passes it on unchanged."""
    plain = "".join(
        letter if letter in _PLAIN or letter > "\x7f" else f"\\{letter}" for letter in option
    )
    # A comma means nothing to a shell, but much to nvcc's lists.
    plain = plain.replace("\\,", ",")
    return "".join(f"\\{letter}" if letter in _OF_LISTS else letter for letter in plain)


def _archs(read: list[command_line.Word], kinds: frozenset[str] = _KINDS) -> tuple[str, ...]:
    """Return the compute capabilities of the machine code and PTX, as `90` or `90a`."""
    values = ",".join(word.value for word in read if word.name in _ARCHS)
    for separator in "=[]'\" ":
        values = values.replace(separator, ",")
    parts = (part.partition("_") for part in values.split(","))
    return tuple(sorted({arch for kind, _, arch in parts if kind in kinds}))
