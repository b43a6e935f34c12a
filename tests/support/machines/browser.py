"""Chromium without a window, driven through its DevTools protocol.

https://chromedevtools.github.io/devtools-protocol/. It is asked through a pair of pipes, for which
the standard library does.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.requirements import require

PHONE, DESKTOP = (390, 844), (1280, 800)  # CSS pixels

_OPTIONS = (
    "--headless",
    "--no-sandbox",  # tests run as root, too
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--allow-file-access-from-files=false",
    "--remote-debugging-pipe",
)
# What Chromium answers when another page takes the place of the one that was asked.
_LEFT = ("Inspected target navigated or closed", "Execution context was destroyed")
_REST = 0.2  # seconds that something has to stand still
_PATIENCE = 30.0  # seconds for a page to become what a test waits for


class PageLeftError(Exception):
    """The page went away before it answered."""


class Browser:
    """One page of a browser, and what it did.

    Attributes:
        requests: addresses that the page asked for.
        complaints: errors and warnings of the console, uncaught exceptions, failed requests.
    """

    def __init__(self, asked: int, answers: int) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._asked, self._answers = asked, answers
        self._rest, self._count = b"", 0
        self._session = ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, address: str, size: tuple[int, int] = DESKTOP) -> None:
        """Load a page at a width and height."""
        width, height = size
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=size == PHONE,
        )
        self._call("Page.navigate", url="about:blank")
        self._call("Page.navigate", url=address)
        self.wait_for("location.href != 'about:blank' && document.readyState == 'complete'")

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript gives in the page.

        Raises:
            PageLeftError: another page was opened meanwhile.
        """
        asked = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        found = self._call("Runtime.evaluate", **asked)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Until an expression is true in the page, or in the one that comes after it."""
        end = time.monotonic() + _PATIENCE
        while not self._is_true(expression):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.02)

    def _is_true(self, expression: str) -> bool:
        try:
            return bool(self.value(expression))
        except PageLeftError:
            return False

    def click(self, selector: str) -> None:
        """Press the left button on an element that stands still, on its first line."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.value(f"{element}.scrollIntoView({{block: 'nearest'}})")
        centre = "(box => [box.x + box.width / 2, box.y + box.height / 2])"
        place = f"{centre}({element}.getClientRects()[0])"
        x, y = self._at_rest(place)
        for kind in ("mousePressed", "mouseReleased"):
            where = {"x": x, "y": y, "button": "left", "clickCount": 1}
            self._call("Input.dispatchMouseEvent", type=kind, **where)

    def _at_rest(self, expression: str) -> Any:
        """What an expression gives twice in a row: pages move while they load."""
        before, now = None, self.value(expression)
        while before != now:
            time.sleep(_REST)
            before, now = now, self.value(expression)
        return now

    def type(self, text: str) -> None:
        """Write into what has the focus, then press Enter."""
        self._call("Input.insertText", text=text)
        for kind in ("keyDown", "keyUp"):
            key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
            self._call("Input.dispatchKeyEvent", type=kind, **key)

    def picture(self) -> bytes:
        """What is seen, as PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def _call(self, method: str, **given: Any) -> dict[str, Any]:
        self._count += 1
        asked = {"id": self._count, "method": method, "params": given}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._asked, json.dumps(asked).encode() + b"\0")
        for answer in self._heard():
            if answer.get("id") == self._count:
                if answer.get("error", {}).get("message") in _LEFT:
                    raise PageLeftError(method)
                assert "error" not in answer, (method, answer)
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer.get("method"), answer.get("params", {}))
        raise AssertionError("Chromium ended")

    def _heard(self) -> Iterator[dict[str, Any]]:
        while True:
            message, end, rest = self._rest.partition(b"\0")
            if end:
                self._rest = rest
                yield json.loads(message)
            elif more := os.read(self._answers, 1 << 16):
                self._rest += more
            else:
                return

    def _note(self, event: str | None, given: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif event == "Network.loadingFailed" and not given.get("canceled"):
            self.complaints.append(f"request failed: {given['errorText']}")
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(str(given["exceptionDetails"]))
        elif event == "Log.entryAdded" and given["entry"]["level"] in {"warning", "error"}:
            self.complaints.append(f"{given['entry']['text']} {given['entry'].get('url', '')}")
        elif event == "Runtime.consoleAPICalled" and given["type"] in {"warning", "error"}:
            self.complaints.append(str(given["args"]))


@contextlib.contextmanager
def browser(home: Path) -> Iterator[Browser]:
    """Start Chromium with an empty profile in a folder."""
    require("chromium", "what a browser makes of pages")
    asked, our_end = os.pipe()
    answers, their_end = os.pipe()

    def hand_over() -> None:  # DevTools reads from 3 and writes to 4
        held = os.dup(asked), os.dup(their_end)
        os.dup2(held[0], 3)
        os.dup2(held[1], 4)

    with subprocess.Popen(
        ["chromium", *_OPTIONS, f"--user-data-dir={home}"],
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        preexec_fn=hand_over,  # noqa: PLW1509 - pass_fds can't choose the numbers
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as chromium:
        os.close(asked)
        os.close(their_end)
        try:
            yield Browser(our_end, answers)
        finally:
            chromium.terminate()
            os.close(our_end)
            os.close(answers)
