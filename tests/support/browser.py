"""A headless Chromium that tests drive through a pipe, in the words of its DevTools protocol."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import shutil
import subprocess
from typing import IO, TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FAR = 10  # the lowest descriptor that is nobody's by custom


class Page:
    """One page of a browser.

    Args:
        commands: where commands go to; each ends in a zero byte, as do the answers.
        answers: where answers and events come from.
    """

    def __init__(self, commands: IO[bytes], answers: IO[bytes]) -> None:
        self._commands = commands
        self._answers = answers
        self._numbers = itertools.count(1)
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        opened = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = opened["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Run a command; give its result."""
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        self._commands.write(json.dumps(command).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser has ended"
            text += byte
        answer: dict[str, Any] = json.loads(text)
        return answer

    def open(self, address: str) -> None:
        """Load an address and wait until it is there."""
        self.events.clear()
        self.send("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())
        # What is drawn, is drawn in the frame after.
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and let go of a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def point(self, left: float, top: float) -> None:
        """Move the mouse to a place of the window, in CSS pixels."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=left, y=top)

    def picture(self, path: Path) -> None:
        """Write what the window shows as PNG."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))

    def faults(self) -> list[dict[str, Any]]:
        """Exceptions of scripts and errors that the browser logged since the page was opened."""
        return [
            event
            for event in self.events
            if event.get("method") == "Runtime.exceptionThrown"
            or (
                event.get("method") == "Log.entryAdded"
                and event["params"]["entry"]["level"] == "error"
            )
        ]

    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]


@contextlib.contextmanager
def open_browser(home: Path, *, size: tuple[int, int] = (1280, 1000)) -> Iterator[Page]:
    """Start a browser with an empty profile; skip the test where there is none."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip(f"none of {', '.join(_NAMES)} is installed")
    (its_input, commands), (answers, its_output) = os.pipe(), os.pipe()
    flags = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--no-first-run", "--disable-background-networking", "--remote-debugging-pipe"),
        *(f"--user-data-dir={home}", f"--window-size={size[0]},{size[1]}"),
    ]
    # The browser reads commands from descriptor 3 and answers on 4; these are far from both.
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, _FAR) for end in (its_input, its_output)]
    script = 'exec 3<&"$0" 4>&"$1"; shift; exec "$@"'
    browser = subprocess.Popen(
        ["bash", "-c", script, *map(str, ends), program, *flags],
        pass_fds=ends,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.defpath, "HOME": str(home)},
    )
    for end in (its_input, its_output, *ends):
        os.close(end)
    with os.fdopen(commands, "wb") as to_browser, os.fdopen(answers, "rb") as from_browser:
        try:
            yield Page(to_browser, from_browser)
        finally:
            browser.terminate()
            browser.wait(timeout=30)
