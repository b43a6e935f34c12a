"""Device code that a build for another platform has compiled: PTX and cubins, by proof of equality.

nvcc compiles device code by the same two programs whichever machine the host code is for: cicc
makes PTX of a preprocessed source, ptxas makes a cubin of PTX. A build for `linux_aarch64` after
one for `linux_x86_64` compiles the same kernels, but what is preprocessed differs in every host
header, and plain `char` is unsigned there. So nothing is assumed of sources:

- cicc's front end alone is run, a tenth to a third of its time. What it hands on is LLVM bitcode.
  Where a build for another platform gave the very same bitcode to the rest of the same cicc, with
  the same options, that one's PTX is taken; or where the two differ in nothing that can reach the
  PTX (`device_bitcode`).
- A cubin is taken where the PTX, the options and ptxas are the same.

`-lgenfe`, `-keep` and the variable that switches them on are in no documentation of NVIDIA's: they
are tried for each toolchain (`build/launcher/canary.py`), and where they don't do what is needed,
nothing is shared. docs/adr/0044.

Part of the compiler launcher, in front of the memory gate, so written for a short start. Standard
library only, Python 3.9 or newer.

Variables, without each of which nothing is shared:
    CUWHEEL_DEVICE_CODE: folder of the recipe's compile cache, for all platforms.
    CUWHEEL_DEVICE_TOOLS: SHA-256 over cicc, ptxas and libdevice.
    CUWHEEL_PLATFORM: what the build compiles host code for, `linux_aarch64`.
"""

from __future__ import annotations

import os

if __package__:
    from cuwheel.standalone import event_log
    from cuwheel.standalone.launcher import device_bitcode, kept_files
    from cuwheel.standalone.launcher.device_command import Words
    from cuwheel.standalone.launcher.device_store import Result, Store
    from cuwheel.standalone.memory_gate import gate
else:  # in a build these scripts lie side by side
    import device_bitcode  # type: ignore[import-not-found,no-redef]
    import event_log  # type: ignore[import-not-found,no-redef]
    import gate  # type: ignore[import-not-found,no-redef]
    import kept_files  # type: ignore[import-not-found,no-redef]
    from device_command import Words  # type: ignore[import-not-found,no-redef]
    from device_store import Result, Store  # type: ignore[import-not-found,no-redef]

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable

    Start = Callable[[list[str]], int]  # runs a program under the memory gate; its exit status

# cicc takes options for single phases only with this in its environment.
_PHASES = ("NVVMCCWIZ", "553282")
# Ended by SIGHUP, SIGINT, SIGQUIT, SIGTERM, or by SIGKILL as often as the memory gate tries.
_STOPPED = frozenset(128 + number for number in (1, 2, 3, 9, 15))
_BITCODE = ".lgenfe.bc"  # what `-keep` leaves of the front end's output
_DEVICE_SOURCE = "device.cpp1.ii"


def run_ptxas(words: Words, store: Store, start: Start, aside: str) -> int:
    """Make a cubin, or take it; the exit status."""
    try:
        ptx = kept_files.read(words.source)
    except OSError:
        return start(words.as_called())
    folder = store.folder_of("ptxas", words.key_words())
    found = store.find(folder, ptx)
    if found and _restore(found, words):
        return 0
    status, result = _run(words.as_called(), words, start, aside)
    if result:
        store.keep(folder, ptx, result)
    return status


def run_cicc(words: Words, store: Store, start: Start, aside: str) -> int:
    """Make PTX, or take it from a build that gave the same bitcode to cicc; the exit status."""
    source, words.output = os.path.abspath(words.source), os.path.abspath(words.output)  # noqa: PTH100
    try:
        # `-keep` names its files by the input. Bitcode holds the folder in which cicc was started.
        words.source = f"{aside}/{_DEVICE_SOURCE}"
        os.symlink(source, words.source)  # noqa: PTH211
        os.environ[_PHASES[0]] = _PHASES[1]
        os.chdir("/")
    except OSError:
        words.source = source
        return start(words.as_called())
    folder = store.folder_of("cicc", [os.environ.get("CUWHEEL_FILE", ""), *words.key_words()])
    if store.has_others(folder):
        taken = _take_ptx(words, store, start, folder, aside)
        if taken is not None:
            return taken
    status, result = _run([words.program, "-keep", *words.as_called()[1:]], words, start, aside)
    bitcode = _kept_bitcode(aside)
    if result and bitcode:
        result.bitcode = bitcode
        store.keep(folder, bitcode, result)
    return status


def _take_ptx(words: Words, store: Store, start: Start, folder: str, aside: str) -> int | None:
    """Run the front end, and take the PTX of a build in which it had the same output.

    What the front end says, cicc said too, with what its other parts had to say.

    Returns:
        The exit status; None where cicc has to run.
    """
    bitcode, held = f"{aside}/front-end.bc", f"{aside}/said"
    with _OutputHeld(held):
        status = start(words.front_end(bitcode))
    try:
        if status in _STOPPED:
            _write_all(2, kept_files.read(held))
            return status
        found = None if status else _find_ptx(store, folder, kept_files.read(bitcode), aside)
    except OSError:
        return None
    return 0 if found and _restore(found, words) else None


def _find_ptx(store: Store, folder: str, bitcode: bytes, aside: str) -> Result | None:
    """The result of a build that had this bitcode, or one that can only become the same PTX."""
    if found := store.find(folder, bitcode):
        return found
    digest = b""
    for other in store.others(folder):
        if device_bitcode.has_only_kernels(other.output):
            digest = digest or device_bitcode.canonical_digest(bitcode, aside)
            if digest and digest == device_bitcode.canonical_digest(other.bitcode, aside):
                return other
    return None


def _run(called: list[str], words: Words, start: Start, aside: str) -> tuple[int, Result | None]:
    """Run a program; its exit status, and what it has made where that is all there."""
    held = f"{aside}/said"
    with _OutputHeld(held):
        status = start(called)
    try:
        said = kept_files.read(held)
        _write_all(2, said)
        return status, None if status else Result(said, kept_files.read(words.output))
    except OSError:
        return status, None


class _OutputHeld:
    """While it lasts, what is started writes into a file what it says.

    Args:
        path: of the file.
    """

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


def _kept_bitcode(folder: str) -> bytes:
    """What the front end handed on, as `-keep` has left it; empty where it left nothing."""
    try:
        for name in os.listdir(folder):  # noqa: PTH208
            if name.endswith(_BITCODE):
                return kept_files.read(f"{folder}/{name}")
    except OSError:
        pass
    return b""


def _restore(result: Result, words: Words) -> bool:
    """Put a result in its place and say what was said; whether that went well."""
    try:
        kept_files.replace(words.output, result.output)
        _write_all(2, result.said)
        os.utime(result.path)  # the engine removes what wasn't used for longest
    except OSError:
        return False
    _note(words, result.path.rpartition(".")[2])
    return True


def _note(words: Words, platform: str) -> None:
    """A line in the event log, by which the build counts what it took of another platform's."""
    fields: dict[str, object] = {
        "kind": "shared",
        "compile": os.environ.get("CUWHEEL_COMPILE", ""),
        "name": os.path.basename(words.program),  # noqa: PTH119
        "file": os.environ.get("CUWHEEL_FILE", ""),
        "made_for": platform,
        "taken_for": os.environ.get("CUWHEEL_PLATFORM", ""),
    }
    event_log.append(os.environ.get("CUWHEEL_EVENTS", ""), fields)


def _write_all(file: int, text: bytes) -> None:
    while text:
        text = text[os.write(file, text) :]


def _remove_folder(folder: str) -> None:
    try:
        for name in os.listdir(folder):  # noqa: PTH208
            kept_files.remove(f"{folder}/{name}")
        os.rmdir(folder)  # noqa: PTH106
    except OSError:
        pass


def main(real: str, arguments: list[str]) -> int:
    """Run cicc or ptxas, or take what it would write from a build for another platform.

    Args:
        real: its path.
        arguments: behind it.

    Returns:
        Its exit status; 128 and the signal's number where a signal ended it.

    Raises:
        OSError: it can't be started.
    """
    read = os.environ.get
    told = (
        read("CUWHEEL_DEVICE_CODE", ""),
        read("CUWHEEL_DEVICE_TOOLS", ""),
        read("CUWHEEL_PLATFORM", ""),
    )
    tool = os.path.basename(real)  # noqa: PTH119
    run = {"cicc": run_cicc, "ptxas": run_ptxas}.get(tool)
    words = Words(real, arguments)
    if not all(told) or run is None or not words.can_be_shared:
        return gate.main(real, arguments)
    aside = f"{os.environ.get('TMPDIR') or '/tmp'}/cuwheel-device-{os.getpid()}"  # noqa: S108
    try:
        os.mkdir(aside, 0o700)  # noqa: PTH102
    except OSError:
        return gate.main(real, arguments)
    try:
        return run(words, Store(*told), _start, aside)
    finally:
        _remove_folder(aside)


def _start(called: list[str]) -> int:
    """Run a program under the memory gate; its exit status."""
    return gate.main(called[0], called[1:])
