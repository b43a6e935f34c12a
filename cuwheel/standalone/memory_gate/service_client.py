"""The engine's memory service, as a gated process uses it: what `Ledger` and `Peaks` do, asked for.

What all builds share is the engine's to write (`build/launcher/memory_service`): a build sees a
socket. Each question is a line of words between NUL characters, and so is its answer. The program
that is run inherits the connection, so that what was promised is held as long as either of them
lives. Part of the memory gate, docs/adr/0017, so written for a short start. Standard library only,
Python 3.9 or newer.
"""

from __future__ import annotations

import _socket  # `socket` takes as long as all else here
import os

_PIECE = 4096  # bytes
_KIND, _SOCKET = 0o170000, 0o140000  # inode(7): S_IFMT, S_IFSOCK


def is_there(path: str) -> bool:
    """Whether a path is that of a socket."""
    try:
        return os.stat(path).st_mode & _KIND == _SOCKET  # noqa: PTH116
    except OSError:
        return False


class ServiceClient:
    """A connection to the service.

    Args:
        path: of the socket.

    Attributes:
        queued_until: as `Ledger` has it.

    Raises:
        OSError: here and in all methods: the service isn't there, or refuses.
    """

    def __init__(self, path: str) -> None:
        self.queued_until = 0.0
        self._is_asking = False
        self._must_yield = False
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.connect(path)
        self._file = connection.detach()
        os.set_inheritable(self._file, True)

    def expect(self, tool: str, key: str, guessed: int) -> tuple[int, int]:
        """As `Peaks` has it."""
        expected, known = self._ask("expect", tool, key, guessed)
        return int(expected), int(known)

    def learn(self, tool: str, key: str, peak: int) -> None:
        """As `Peaks` has it."""
        self._ask("learn", tool, key, peak)

    def suspect(self, tool: str, key: str, peak: int) -> None:
        """As `Peaks` has it."""
        self._ask("suspect", tool, key, peak)

    def wait(self, expected: int, known: int = 0, *, alone: str = "") -> None:
        """As `Ledger` has it."""
        (queued_until,) = self._ask("wait", expected, known, alone)
        self.queued_until = float(queued_until)

    def tell(self, used: int) -> None:
        """As `Ledger` has it."""
        self._must_yield = self._ask("tell", used) == ["True"]

    def must_yield(self) -> bool:
        """As `Ledger` has it; the service has said so when it was told last."""
        return self._must_yield

    def is_alone(self, level: str) -> bool:
        """As `Ledger` has it."""
        return self._ask("is_alone", level) == ["True"]

    def leave(self) -> None:
        """As `Ledger` has it; a signal may ask for it while another question is open."""
        if self._is_asking:
            os.close(self._file)
        else:
            self._ask("leave")

    def _ask(self, *words: str | int) -> list[str]:
        line = "\0".join(map(str, words)).replace("\n", " ")
        left = f"{line}\n".encode(errors="surrogateescape")
        self._is_asking = True
        while left:
            left = left[os.write(self._file, left) :]
        said = b""
        while not said.endswith(b"\n"):
            piece = os.read(self._file, _PIECE)
            if not piece:
                raise OSError("the memory service has ended")
            said += piece
        self._is_asking = False
        verdict, *answer = said[:-1].decode(errors="surrogateescape").split("\0")
        if verdict != "ok":
            raise OSError("the memory service refused the request")
        return answer
