"""Device code that an earlier compile made: PTX and cubins, by equal bytes.

nvcc compiles device code by the same two programs for every host: cicc makes PTX of a preprocessed
source, ptxas makes a cubin of PTX. One more arch, another Python or another platform give most of
these the same input as an earlier compile. So outputs are reused by what the programs read:

- ptxas: a cubin is reused for equal PTX, options and programs.
- cicc: all its files are reused for an equal source, options and programs. For another source of
  the same name (`Python.h` of another Python, another list of archs) its front end alone runs, a
  tenth to a third of its time. PTX is reused if the front end's LLVM bitcode, the options and the
  programs are equal.

`-lgenfe`, `-keep` and the variable that enables them are in no documentation of NVIDIA's:
`build/compile/canary.py` tries them for each toolchain. docs/adr/0044.

Variables, without each of which nothing is reused:
    CUWHEEL_DEVICE_CODE: folder of the recipe's compile cache, for all platforms.
    CUWHEEL_DEVICE_TOOLS: SHA-256 over cicc, ptxas and libdevice.
    CUWHEEL_PLATFORM: what the build compiles host code for, `linux_aarch64`.
"""

from __future__ import annotations

import os

from cuwheel.build.compile.launcher import kept_files
from cuwheel.build.compile.memory_gate import event_log, gate

# cicc takes options for single phases only with this in its environment.
_PHASES = ("NVVMCCWIZ", "553282")
# Ended by SIGHUP, SIGINT, SIGQUIT, SIGTERM, or by SIGKILL as often as the memory gate tries.
_STOPPED = frozenset(128 + number for number in (1, 2, 3, 9, 15))
_BITCODE = ".lgenfe.bc"  # end of the name under which `-keep` leaves the front end's output
_DEVICE_SOURCE = "device.cpp1.ii"
# Variables that the programs read, by their calls of getenv(3) in 13.0, and others of such names.
_VARIABLES = (
    *("EDG_", "USR_INCLUDE", "LIBNVVM", "LLVM_", "NVVM", "NV_NVVM", "NVPTX", "CICC", "NOCOLOR"),
    *("PTXAS", "CAN_FINALIZE_DEBUG", "DUMP_KNOBS", "AS_SECURE_LOG_FILE"),
)
_FORMAT = "4"  # raise it when entries of an older cuwheel must not be used

# Files that cicc reads and writes, by the option that names them: nvcc --dryrun of 13.0 to 13.5.
_MODULE_ID = "--module_id_file_name"
_WRITTEN = ("-o", "--gen_c_file_name", "--stub_file_name", "--gen_device_file_name")
_SEED = "--frandom-seed"  # its value is a path, but of no file that is read
# Texts for the stub that the front end writes, anew for each platform.
_NAMES = frozenset(("--orig_src_file_name", "--orig_src_path_name", "--include_file_name"))
# Facts about the host compiler and the host: their effect on device code is in the bitcode.
_HOST = ("--gnu_version", "--unsigned_chars", "--unsigned_wchar_t", "--arm_cross_compiler")
# Options that the front end doesn't know, or knows by another name.
_BACK_END = (
    *("-ftz=", "-prec_div=", "-prec_sqrt=", "-fmad=", "-fma=", "-fast-math", "-O", "-opt"),
    *("-maxreg", "-lnk", "-llc", "-Ofast-compile", "--no-version-ident"),
)
# With these a program writes more than its output, or paths and times into it.
_NOT_REUSED = (
    *("-g", "--device-debug", "-lineinfo", "--generate-line-info", "-generate-line-info"),
    *("-src-in-ptx", "--source-in-ptx", "-time", "--time", "-keep", "-dlto", "--emit", "-dump"),
    *("--dump", "-dryrun", "@", "-optf", "--options-file", "-split-compile", "--split-compile"),
    *("-enable-tile", "-nvvmir-library", "-lto", "-olto", "-show-src", "--gen_module_id_file"),
    *("-ias", "--input-as-string"),
)


class DeviceCommand:
    """The command line of cicc or ptxas, taken apart."""

    def __init__(self, program: str, arguments: list[str]) -> None:
        self.program = program
        self.output = self.source = ""
        self.opened: dict[str, str] = {}
        self.rest: list[str] = []
        sources = []
        words = iter(arguments)
        for word in words:
            name, equals, value = word.partition("=")
            if name in _NAMES or name in _WRITTEN or name == _MODULE_ID:
                self._add(name, value if equals else next(words, ""))
            elif word.endswith((".ii", ".ptx")) and word[0] != "-":
                sources.append(word)
            else:
                self.rest.append(word)
        if len(sources) == 1:
            self.source = sources[0]

    def _add(self, name: str, value: str) -> None:
        if name == "-o":
            self.output = value
        elif name in _NAMES:
            self.rest += [name, value]
        else:
            self.opened[name] = os.path.abspath(value)  # noqa: PTH100

    @property
    def can_be_reused(self) -> bool:
        """True if it makes nothing but its output, which follows from input and options."""
        if not self.source or not self.output or _is_link_or_device(self.output):
            return False
        if self.source.endswith(".ii") and not _has_line_markers(self.source):
            return False
        if any(word.startswith(_NOT_REUSED) for word in self.rest):
            return False
        before = ["", *self.rest]
        return not any(
            _may_name_file(word)
            for name, word in zip(before, self.rest)
            if name not in _NAMES and name != _SEED
        )

    def key_words(self) -> list[str]:
        """Return the options on which the output depends; names and facts of the host left out."""
        key = []
        words = iter(self.rest)
        for word in words:
            if word in _NAMES:
                next(words, "")
            elif not word.startswith(_HOST):
                key.append(word)
        return key

    def argv(self) -> list[str]:
        """Return the whole command line."""
        return [self.program, *self.rest, *self._opened_words(), self.source, "-o", self.output]

    def _opened_words(self) -> list[str]:
        return [word for pair in self.opened.items() for word in pair]

    def host_files(self) -> list[str]:
        """Return the files that are written next to the output."""
        return [path for name, path in self.opened.items() if name != _MODULE_ID]

    def whole_key(self, source: bytes) -> tuple[list[str], bytes]:
        """Return all that the host's files depend on too: options, and content that is read.

        Raises:
            OSError: a file can't be read.
        """
        module_id = self.opened.get(_MODULE_ID, "")
        content = kept_files.read(module_id) if module_id else b""
        return [*self.rest, *self.opened], kept_files.digest(content) + source

    def front_end(self, bitcode: str) -> list[str]:
        """Return the command that runs cicc's front end alone and writes its bitcode."""
        options = []
        arch = ""
        rest = iter(self.rest)
        for word in rest:
            if word == "-arch":
                arch = next(rest, "")
            elif word.startswith("-arch="):
                arch = word.partition("=")[2]
            elif word != "-m64" and not word.startswith(_BACK_END):
                options.append(word)
        return [
            *(self.program, "-lgenfe", "--nv_arch", arch, "--m64", *options, *self._opened_words()),
            *("--emit-llvm-bc", self.source, "-o", bitcode),
        ]


def _may_name_file(word: str) -> bool:
    """Return True for an option of the package's (`-Xcicc`) by which more may be read."""
    value = word.partition("=")[2] or word
    return "/" in value or os.path.exists(value)  # noqa: PTH110


def _is_link_or_device(path: str) -> bool:
    """Return True for a link or a device: what was written can't be read from /dev/null."""
    return os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path))  # noqa: PTH113, PTH114


def _has_line_markers(source: str) -> bool:
    """Return False where `__builtin_FILE()` and messages name the preprocessed file, as with -P."""
    try:
        with open(source, "rb") as stream:  # noqa: PTH123
            return stream.read(2) == b"# "
    except OSError:
        return False


class Store:
    """The folder with the device code of one recipe: messages and output of each command."""

    def __init__(self, folder: str, tools: str, platform: str) -> None:
        self._folder = folder
        self._tools = tools
        self._platform = platform

    def folder_of(self, kind: str, parts: list[str]) -> str:
        """Return the folder with the results of one command for all of its inputs."""
        variables = sorted(pair for pair in os.environ.items() if pair[0].startswith(_VARIABLES))
        read = [f"{name}={value}" for name, value in variables]
        text = "\0".join((_FORMAT, self._tools, kind, *parts, "", *read))
        key = kept_files.digest(text.encode("utf-8", "surrogateescape")).hex()
        return f"{self._folder}/{key[:2]}/{key[2:]}"

    def restore(
        self,
        folder: str,
        content: bytes,
        paths: list[str],
        program: str,
        messages: bytes | None = None,
    ) -> list[bytes]:
        """Write the kept files for an input, print its messages and note it in the event log.

        Args:
            messages: the only ones that are right; None: those that were kept.

        Returns:
            Messages and contents of the files; nothing if none are kept.
        """
        start = kept_files.digest(content).hex()
        for name in _names(folder):
            if not name.startswith(f"{start}."):
                continue
            try:
                result = kept_files.read_parts(f"{folder}/{name}")
                if len(result) != 1 + len(paths) or messages not in {None, result[0]}:
                    continue
                for path, part in zip(paths, result[1:]):
                    kept_files.replace(path, part)
                kept_files.write_all(2, result[0])
            except (OSError, ValueError):
                continue
            fields: dict[str, object] = {
                "kind": "shared",
                "compile": os.environ.get("CUWHEEL_COMPILE", ""),
                "name": os.path.basename(program),  # noqa: PTH119
                "file": os.environ.get("CUWHEEL_FILE", ""),
                "made_for": name.rpartition(".")[2],
                "taken_for": self._platform,
            }
            event_log.append(os.environ.get("CUWHEEL_EVENTS", ""), fields)
            return result
        return []

    def keep(self, folder: str, content: bytes, result: list[bytes]) -> None:
        """Keep the messages and the files of a command for an input."""
        start = kept_files.digest(content).hex()
        kept_files.keep_parts(f"{folder}/{start}.{self._platform}", result)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []


def run_ptxas(command: DeviceCommand, store: Store, scratch: str) -> int:
    """Make a cubin, or reuse one; return the exit status."""
    try:
        ptx = kept_files.read(command.source)
    except OSError:
        return _start(command.argv())
    folder = store.folder_of("ptxas", command.key_words())
    if store.restore(folder, ptx, [command.output], command.program):
        return 0
    status, result = _run(command.argv(), [command.output], scratch)
    if result:
        store.keep(folder, ptx, result)
    return status


def run_cicc(command: DeviceCommand, store: Store, scratch: str) -> int:
    """Make PTX, or reuse that of an equal source or equal bitcode; return the exit status."""
    source, command.output = os.path.abspath(command.source), os.path.abspath(command.output)  # noqa: PTH100
    paths = [command.output, *command.host_files()]
    try:
        words, content = command.whole_key(kept_files.read(source))
        # `-keep` names its files by the input. Bitcode holds the folder in which cicc was started.
        command.source = f"{scratch}/{_DEVICE_SOURCE}"
        os.symlink(source, command.source)  # noqa: PTH211
        os.environ[_PHASES[0]] = _PHASES[1]
        os.chdir("/")
    except OSError:
        command.source = source
        return _start(command.argv())
    whole = store.folder_of("whole", words)
    if store.restore(whole, content, paths, command.program):
        return 0
    folder = store.folder_of("cicc", [os.environ.get("CUWHEEL_FILE", ""), *command.key_words()])
    status, result = _reuse_ptx(command, store, folder, scratch) if _names(folder) else (-1, [])
    if status < 0:
        argv = [command.program, "-keep", *command.argv()[1:]]
        status, result = _run(argv, paths, scratch)
        for name in _names(scratch):
            if result and name.endswith(_BITCODE):
                store.keep(folder, kept_files.read(f"{scratch}/{name}"), result[:2])
    if result:
        store.keep(whole, content, result)
    return status


def _reuse_ptx(
    command: DeviceCommand, store: Store, folder: str, scratch: str
) -> tuple[int, list[bytes]]:
    """Run the front end, and reuse the PTX of a compile in which its bitcode was the same.

    The same bitcode may come with other warnings: of host code, of `#warning`.

    Returns:
        The exit status, -1 where cicc has to run; messages and files where it succeeded.
    """
    bitcode, messages = f"{scratch}/front-end.bc", f"{scratch}/messages"
    with _OutputHeld(messages):
        status = _start(command.front_end(bitcode))
    try:
        printed = kept_files.read(messages)
        if status in _STOPPED:
            kept_files.write_all(2, printed)
            return status, []
        code = b"" if status else kept_files.read(bitcode)
        result = code and store.restore(folder, code, [command.output], command.program, printed)
        if result:
            return 0, [*result, *map(kept_files.read, command.host_files())]
    except OSError:
        pass
    return -1, []


def _run(argv: list[str], paths: list[str], scratch: str) -> tuple[int, list[bytes]]:
    """Run a program; return its exit status, and messages and files where it succeeded."""
    held = f"{scratch}/messages"
    with _OutputHeld(held):
        status = _start(argv)
    try:
        messages = kept_files.read(held)
        kept_files.write_all(2, messages)
        return status, [] if status else [messages, *map(kept_files.read, paths)]
    except OSError:
        return status, []


class _OutputHeld:
    """Sends the messages of programs that are started meanwhile into a file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._real: tuple[int, int] = (-1, -1)

    def __enter__(self) -> None:
        self._real = (os.dup(1), os.dup(2))
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        for number in (1, 2):
            os.dup2(file, number)
        os.close(file)

    def __exit__(self, *_: object) -> None:
        for number, real in enumerate(self._real, 1):
            os.dup2(real, number)
            os.close(real)


def _start(argv: list[str]) -> int:
    """Run a program under the memory gate; return its exit status."""
    return gate.main(argv[0], argv[1:])


def main(real: str, arguments: list[str]) -> int:
    """Run cicc or ptxas, or reuse the output of an earlier compile; as `gate.main`."""
    read = os.environ.get
    folder, tools = read("CUWHEEL_DEVICE_CODE", ""), read("CUWHEEL_DEVICE_TOOLS", "")
    platform = read("CUWHEEL_PLATFORM", "")
    run = {"cicc": run_cicc, "ptxas": run_ptxas}.get(os.path.basename(real))  # noqa: PTH119
    command = DeviceCommand(real, arguments)
    if not (folder and tools and platform and run and command.can_be_reused):
        return gate.main(real, arguments)
    temporary = os.path.abspath(os.environ.get("TMPDIR") or "/tmp")  # noqa: PTH100, S108
    scratch = f"{temporary}/cuwheel-device-{os.getpid()}"
    try:
        os.mkdir(scratch, 0o700)  # noqa: PTH102
    except OSError:
        return gate.main(real, arguments)
    try:
        return run(command, Store(folder, tools, platform), scratch)
    finally:
        try:
            for name in _names(scratch):
                kept_files.remove(f"{scratch}/{name}")
            os.rmdir(scratch)  # noqa: PTH106
        except OSError:
            pass
