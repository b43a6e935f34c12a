"""Run a command with sccache's server beside it, both inside the sandbox.

`python -ISB cache_server.py SCCACHE FOLDER PROGRAM ARGUMENT...`. sccache's clients let a server
compile, which has to be where the compilers are. It is started before the program and ended with
it, so that nothing of it outlives the build: it stays in this process's group. FOLDER gets a file
with what the server counted, as JSON. Where the server doesn't start, one line says so and the
program finds CUWHEEL_NO_COMPILE_CACHE set. The exit status is the program's. Standard library only,
Python 3.9 or newer.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time

OFF = "CUWHEEL_NO_COMPILE_CACHE"

_START_LIMIT = 10.0  # seconds that a server gets to listen; on an idle machine it takes 0.05
_ANSWER_LIMIT = 10.0  # seconds that it gets to answer a client; with nothing to do it takes 0.05
_END_LIMIT = 10.0  # seconds that it gets to end
_LOOK = 0.02  # seconds between two looks
_SILENCE = 3.0  # seconds in which none of its results is written, after which none is waited for
_SIGNALLED = 128  # shells add a signal's number to this
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Python ignores these, and what it starts would.
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)


def start_server(sccache: str) -> int:
    """Start a server in the foreground; gives back its process, 0 where it doesn't come up."""
    environment = {
        **os.environ,
        "SCCACHE_START_SERVER": "1",
        "SCCACHE_NO_DAEMON": "1",  # a daemon would leave this process's group
        "SCCACHE_IDLE_TIMEOUT": "0",
    }
    log = os.environ.get("SCCACHE_ERROR_LOG", os.devnull)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    quiet = [(os.POSIX_SPAWN_OPEN, to, log, flags, 0o644) for to in (1, 2)]
    path = os.environ["SCCACHE_SERVER_UDS"]
    try:
        child = os.posix_spawn(
            sccache, [sccache], environment, file_actions=quiet, setsigmask=(), setsigdef=_RESTORED
        )
    except OSError:
        return 0
    deadline = time.monotonic() + _START_LIMIT
    while time.monotonic() < deadline:
        if _has_ended(child):
            return 0
        if _listens(path):
            return child
        time.sleep(_LOOK)
    _end(child)
    return 0


def _has_ended(child: int) -> bool:
    return os.waitpid(child, os.WNOHANG)[0] != 0


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def _end(child: int) -> None:
    """End a server: kindly, so that what it is writing is whole, then not."""
    os.kill(child, signal.SIGTERM)
    deadline = time.monotonic() + _END_LIMIT
    while time.monotonic() < deadline:
        if _has_ended(child):
            return
        time.sleep(_LOOK)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def run(words: list[str], environment: dict[str, str]) -> int:
    """Run the program; signals reach it. Gives back its status as shells have it."""
    child = os.posix_spawnp(
        words[0], words, environment, setsigmask=(), setsigdef=[*_RESTORED, *_PASSED_ON]
    )

    def pass_on(number: int, _: object) -> None:
        os.kill(child, number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    status = os.waitpid(child, 0)[1]
    for number, handler in before.items():
        signal.signal(number, handler)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else _SIGNALLED + os.WTERMSIG(status)


def ask(sccache: str, *words: str) -> str:
    """What a client gets from the server; nothing where that is gone, or is silent for too long.

    The clients themselves wait for ever.
    """
    answers, to = os.pipe()
    actions = [
        (os.POSIX_SPAWN_DUP2, to, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    client = os.posix_spawn(sccache, [sccache, *words], dict(os.environ), file_actions=actions)
    os.close(to)
    answer, deadline = b"", time.monotonic() + _ANSWER_LIMIT
    while (left := deadline - time.monotonic()) > 0 and select.select([answers], [], [], left)[0]:
        piece = os.read(answers, 1 << 16)
        if not piece:
            break
        answer += piece
    os.close(answers)
    os.kill(client, signal.SIGKILL)  # one that has said all has nothing left to do
    os.waitpid(client, 0)
    return answer.decode("utf-8", "replace")


def counted(sccache: str) -> str:
    """What the server counted, as JSON, once it has written what it compiled.

    It answers a compile before it keeps the result, and a build that ends at once would lose that.
    """
    answer, before, changed = "", -1, time.monotonic()
    while time.monotonic() - changed < _SILENCE:
        answer = ask(sccache, "--show-stats", "--stats-format", "json")
        missing = unwritten(answer)
        if missing <= 0:
            break
        if missing != before:
            before, changed = missing, time.monotonic()
        time.sleep(_LOOK)
    return answer


def unwritten(answer: str) -> int:
    """How many results are still to be written, by what the server counted."""
    try:
        stats = json.loads(answer)["stats"]
    except (ValueError, KeyError):
        return 0
    levels = [level["writes"] + level["write_failures"] for level in stats.get("multi_level") or ()]
    written = levels or [stats["cache_writes"] + stats["cache_write_errors"]]
    return int(sum(stats["cache_misses"]["counts"].values()) - min(written))


def finish(sccache: str, server: int, folder: str) -> None:
    """End the server, after it has said what it counted."""
    if _has_ended(server):
        # It died during the build; a client may have started another one, as a daemon.
        ask(sccache, "--stop-server")
        return
    name = os.path.join(folder, f"sccache-{time.time_ns()}.json")  # noqa: PTH118
    try:
        with open(name, "w", encoding="utf-8") as stream:  # noqa: PTH123
            stream.write(counted(sccache))
    except OSError:  # a count is no reason for a build to fail
        print("cuwheel: warning: sccache's statistics could not be saved", flush=True)
    finally:
        _end(server)


def main(sccache: str, folder: str, words: list[str]) -> int:
    """Do it all; gives back the program's status."""
    environment = dict(os.environ)
    # A signal that comes while there is no program to pass it on to waits for one.
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    server = start_server(sccache)
    if not server:
        environment[OFF] = "1"
        print("cuwheel: warning: sccache doesn't start, so everything is compiled", flush=True)
    try:
        return run(words, environment)
    finally:
        if server:
            finish(sccache, server, folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
