"""The client of the engine's memory service (`build/compile/memory/service.py`).

A request is a line of words separated by NUL characters, and so is its reply. The program that is
run inherits the connection, so that memory is reserved as long as either of them lives.
"""

from __future__ import annotations

import _socket  # `socket` takes as long as all else here
import os

_PIECE = 4096  # bytes


class ServiceClient:
    """A connection to the service.

    No failure of it is a reason for a compile to fail: what can't be asked for is allowed.

    Attributes:
        queued_until: when this last waited for others of its build to end, not for memory, in
            seconds since 1970; 0 where it never did.
    """

    def __init__(self, path: str) -> None:
        self.queued_until = 0.0
        self._is_waiting = False
        self._file = -1
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.connect(path)
            self._file = connection.detach()
            os.set_inheritable(self._file, True)
        except OSError:  # no engine serves this gate
            pass

    def expect(self, tool: str, key: str) -> tuple[int, int]:
        """Return the bytes to reserve for a program, and how many of them it is known to take."""
        reply = self._request("expect", tool, key)
        return (int(reply[0]), int(reply[1])) if reply else (0, 0)

    def learn(self, tool: str, key: str, peak: int) -> None:
        """Have a program's peak kept, in bytes."""
        self._request("learn", tool, key, peak)

    def wait(self, expected: int, known: int = 0, *, alone: str = "") -> bool:
        """Return when there is memory, which is reserved until `leave`.

        Args:
            expected: bytes that will be taken at the peak.
            known: bytes of them that are certain.
            alone: name of a level: wait until no other gated program runs in it, and let none start
                there meanwhile.

        Returns:
            False where nothing is reserved.
        """
        reply = self._request("wait", expected, known, alone)
        if reply:
            self.queued_until = float(reply[0])
        return bool(reply)

    def report(self, used: int) -> bool:
        """Report the bytes in use; return True if the program is to be killed for others."""
        return self._request("report", used) == ["True"]

    def is_alone(self, level: str) -> bool:
        """Return True if no other gated program runs in a level now."""
        return self._request("is_alone", level) in ([], ["True"])

    def leave(self) -> None:
        """Give the memory back; a signal may call this while another request is open."""
        if self._is_waiting:
            self._close()
        else:
            self._request("leave")

    def _request(self, *words: str | int) -> list[str]:
        """Return the values of the reply; none without a service, or where it refuses."""
        line = "\0".join(map(str, words)).replace("\n", " ")
        try:
            reply = self._exchange(f"{line}\n".encode(errors="surrogateescape"))
        except OSError:
            self._close()
            return []
        verdict, *values = reply[:-1].decode(errors="surrogateescape").split("\0")
        return values if verdict == "ok" else []

    def _exchange(self, rest: bytes) -> bytes:
        self._is_waiting = True
        while rest:
            rest = rest[os.write(self._file, rest) :]
        reply = b""
        while not reply.endswith(b"\n"):
            piece = os.read(self._file, _PIECE)
            if not piece:
                raise OSError("the memory service has ended")
            reply += piece
        self._is_waiting = False
        return reply

    def _close(self) -> None:
        file, self._file, self._is_waiting = self._file, -1, False
        if file >= 0:
            os.close(file)
