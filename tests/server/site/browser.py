"""Headless Chromium, driven over a pipe."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from server.debian import Unavailable, find_or_install

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


_PATIENCE = 60.0
_START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser reads descriptor 3 and writes to 4, whatever they are called here."""


def _on_path() -> str | None:
    return next((found for name in _NAMES if (found := shutil.which(name)) is not None), None)


class Browser:
    """Run Chromium with a profile of its own; ends with the block.

    :param program: its path.
    :param flags: further words of its command line.
    """

    def __init__(self, program: str, *flags: str) -> None:
        self._profile = tempfile.mkdtemp(prefix="wheelfit-chromium-")
        theirs_in, self._write = os.pipe()
        self._read, theirs_out = os.pipe()
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-S",
                "-c",
                _START,
                str(theirs_in),
                str(theirs_out),
                program,
                *_FLAGS,
                *flags,
                f"--user-data-dir={self._profile}",
            ],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""
        self._count = 0
        self.events: list[dict[str, Any]] = []

    def tab(self) -> Tab:
        """Open a new, empty tab."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        return Tab(self, attached["sessionId"])

    def call(
        self, method: str, parameters: Mapping[str, object] | None = None, session: str = ""
    ) -> dict[str, Any]:
        """Call a method of the browser, and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") != self._count:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return dict(answer["result"])

    def wait_for(self, method: str, session: str) -> dict[str, Any]:
        """Wait for an event, and return its parameters."""
        while True:
            for number, event in enumerate(self.events):
                if event.get("method") == method and event.get("sessionId") == session:
                    del self.events[: number + 1]
                    return dict(event["params"])
            self.events.append(self._receive())

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], _PATIENCE)[0]:
                raise TimeoutError("Chromium says nothing")
            piece = os.read(self._read, 1 << 20)
            if not piece:
                raise Unavailable("Chromium ended")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))

    def close(self) -> None:
        """End the browser, and remove its profile."""
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._profile, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def running_browser(*flags: str) -> Iterator[Browser]:
    """Run a browser, or skip.

    :param flags: further words of its command line.
    """
    try:
        browser = Browser(find_or_install("chromium", _on_path), *flags)
    except Unavailable as error:
        pytest.skip(str(error))
    with browser:
        try:
            browser.call("Browser.getVersion")
        except (Unavailable, TimeoutError) as error:
            pytest.skip(f"Chromium does not start: {error}")
        yield browser


class Tab:
    """Look at one page.

    :param browser: whose it is.
    :param session: how it is called there.
    """

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self._call(f"{domain}.enable")

    def show(self, *, width: int, dark: bool) -> None:
        """Set the width and the colour scheme of the screen."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", {"features": [scheme]})

    def send_headers(self, headers: Mapping[str, str]) -> None:
        """Add headers to every request of the page."""
        self._call("Network.enable")
        self._call("Network.setExtraHTTPHeaders", {"headers": dict(headers)})

    def drop_policies(self) -> None:
        """Switch off the content security policies of pages, as if others had sent them."""
        self._call("Page.setBypassCSP", {"enabled": True})

    def open(self, url: str) -> None:
        """Load a page."""
        self._call("Page.navigate", {"url": url})
        self.loaded()

    def loaded(self) -> None:
        """Wait until a page is loaded."""
        self._browser.wait_for("Page.loadEventFired", self._session)

    def evaluate(self, script: str) -> Any:
        """Return the result of a script."""
        wish = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = self._call("Runtime.evaluate", wish)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def choose_file(self, selector: str, path: Path) -> None:
        """Put a file into an input."""
        root = self._call("DOM.getDocument")["root"]["nodeId"]
        found = self._call("DOM.querySelector", {"nodeId": root, "selector": selector})
        files = {"nodeId": found["nodeId"], "files": [str(path)]}
        self._call("DOM.setFileInputFiles", files)

    def press(self, key: str) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            code = {"type": kind, "key": key, "code": key}
            self._call("Input.dispatchKeyEvent", {**code, "windowsVirtualKeyCode": _KEYS[key]})

    def screenshot(self, path: Path) -> None:
        """Write a picture of the whole page."""
        wish: dict[str, object] = {"format": "png", "captureBeyondViewport": True}
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        wish["clip"] = {
            "x": 0,
            "y": 0,
            "width": size["width"],
            "height": min(size["height"], 8000),
            "scale": 1,
        }
        answer = self._call("Page.captureScreenshot", wish)
        path.write_bytes(base64.b64decode(answer["data"]))

    def complaints(self) -> list[str]:
        """Return what the browser wrote into its console, as refusals of a policy."""
        found = []
        for event in self._browser.events:
            if event.get("method") == "Log.entryAdded" and event.get("sessionId") == self._session:
                entry = event["params"]["entry"]
                found.append(f"{entry['text']} {entry.get('url', '')}")
        return found

    def _call(self, method: str, parameters: Mapping[str, object] | None = None) -> dict[str, Any]:
        return self._browser.call(method, parameters, self._session)


_KEYS = {"Tab": 9, "Enter": 13}
