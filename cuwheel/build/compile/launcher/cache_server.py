"""Run a command together with sccache's server, both inside the sandbox.

`python -ISB cache_server.py SCCACHE FOLDER PROGRAM ARGUMENT...`. sccache's clients let a server
compile, which has to be where the compilers are. It starts before the program and ends with it, and
stays in this process's group, so that nothing of it outlives the build. FOLDER gets a file with the
server's statistics, as JSON. Where the server doesn't start, one line is printed and the program
finds CUWHEEL_NO_COMPILE_CACHE set. The exit status is the program's.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

OFF = "CUWHEEL_NO_COMPILE_CACHE"

_START_LIMIT = 10.0  # seconds until a server listens; on an idle machine it takes 0.05
_REPLY_LIMIT = 10.0  # seconds until it replies to a client; when idle it takes 0.05
_END_LIMIT = 10.0  # seconds until it has ended
_INTERVAL = 0.02  # seconds between two polls
_SILENCE = 3.0  # seconds without a written result, after which none is waited for
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def start_server(sccache: str) -> subprocess.Popen[bytes] | None:
    """Start a server in the foreground; None where it doesn't come up."""
    environment = {
        **os.environ,
        "SCCACHE_START_SERVER": "1",
        "SCCACHE_NO_DAEMON": "1",  # a daemon would leave this process's group
        "SCCACHE_IDLE_TIMEOUT": "0",
    }
    try:
        with open(os.environ.get("SCCACHE_ERROR_LOG", os.devnull), "ab") as log:  # noqa: PTH123
            server = subprocess.Popen(  # noqa: S603
                [sccache], env=environment, stdout=log, stderr=log
            )
    except OSError:
        return None
    deadline = time.monotonic() + _START_LIMIT
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket(socket.AF_UNIX) as probe:
            if not probe.connect_ex(os.environ["SCCACHE_SERVER_UDS"]):
                return server
        time.sleep(_INTERVAL)
    _end(server)
    return None


def _end(server: subprocess.Popen[bytes]) -> None:
    """End a server: by SIGTERM, so that its files are whole, then by SIGKILL."""
    server.terminate()
    try:
        server.wait(_END_LIMIT)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


class Forwarder:
    """Forwards signals to the program, also those that came before it was started."""

    def __init__(self) -> None:
        self._signals: list[int] = []
        self._program: subprocess.Popen[bytes] | None = None
        for number in _FORWARDED:
            signal.signal(number, self._forward)

    def _forward(self, number: int, _: object) -> None:
        self._signals.append(number)
        if self._program:
            self._program.send_signal(number)

    def run(self, argv: list[str], environment: dict[str, str]) -> int:
        """Run the program; return its status as shells have it."""
        program = subprocess.Popen(argv, env=environment)  # noqa: S603 - the build's
        self._program = program
        for number in list(self._signals):
            program.send_signal(number)
        status = program.wait()
        return status if status >= 0 else 128 - status


def request(sccache: str, *options: str) -> str:
    """Return the server's reply to a client; empty where it is gone, or silent for too long.

    The clients themselves wait for ever.
    """
    try:
        client = subprocess.run(  # noqa: S603
            [sccache, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_REPLY_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ""
    return client.stdout.decode("utf-8", "replace")


def statistics(sccache: str) -> str:
    """Return the server's statistics, as JSON, once it has written all results.

    It replies to a compile before it keeps the result, and a build that ends at once would lose
    that.
    """
    reply, before, changed = "", -1, time.monotonic()
    while time.monotonic() - changed < _SILENCE:
        reply = request(sccache, "--show-stats", "--stats-format", "json")
        missing = unwritten(reply)
        if missing <= 0:
            break
        if missing != before:
            before, changed = missing, time.monotonic()
        time.sleep(_INTERVAL)
    return reply


def unwritten(reply: str) -> int:
    """Return how many results are still to be written, by the server's statistics."""
    try:
        stats = json.loads(reply)["stats"]
    except (ValueError, KeyError):
        return 0
    levels = [level["writes"] + level["write_failures"] for level in stats.get("multi_level") or ()]
    written = levels or [stats["cache_writes"] + stats["cache_write_errors"]]
    return int(sum(stats["cache_misses"]["counts"].values()) - min(written))


def finish(sccache: str, server: subprocess.Popen[bytes], folder: str) -> None:
    """Save the server's statistics and end it."""
    if server.poll() is not None:
        # It died during the build; a client may have started another one, as a daemon.
        request(sccache, "--stop-server")
        return
    name = os.path.join(folder, f"sccache-{time.time_ns()}.json")  # noqa: PTH118
    try:
        with open(name, "w", encoding="utf-8") as stream:  # noqa: PTH123
            stream.write(statistics(sccache))
    except OSError:  # statistics are no reason for a build to fail
        print("cuwheel: warning: sccache's statistics could not be saved", flush=True)
    finally:
        _end(server)


def main(sccache: str, folder: str, argv: list[str]) -> int:
    """Run the program with a server, and return its status."""
    environment = dict(os.environ)
    forwarder = Forwarder()
    server = start_server(sccache)
    if not server:
        environment[OFF] = "1"
        print("cuwheel: warning: sccache doesn't start, so everything is compiled", flush=True)
    with contextlib.ExitStack() as stack:
        if server:
            stack.callback(finish, sccache, server, folder)
        return forwarder.run(argv, environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
