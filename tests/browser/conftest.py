"""A real console and a real headless Chromium; nothing but the console may be asked for anything."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright

from core.config import ROOT, Config

CHROMIUM = os.environ.get("DUEBOOK_CHROMIUM", "/usr/bin/chromium")
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 120_000
"""A busy small machine may be slow; nothing here measures how fast the console is."""
DONE = '[data-testid="stApp"][data-test-script-state="notRunning"]'


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if shutil.which(CHROMIUM) is None:
        message = f"There is no Chromium at {CHROMIUM}; install Debian's chromium, or name one with DUEBOOK_CHROMIUM."
        if os.environ.get("DUEBOOK_REQUIRE_BROWSER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield browser
        browser.close()


class Console:
    """One console process on a workspace, on a port of its own."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.log = home.parent / "console.log"
        command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(self.port)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, "DUEBOOK_HOME": str(home)}, stdout=log, stderr=subprocess.STDOUT
            )

    def wait(self) -> None:
        """Return when it answers."""
        for _ in range(600):
            assert self.process.poll() is None, self.log.read_text()
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.2)
            else:
                return
        raise AssertionError(f"The console did not answer: {self.log.read_text()}")

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture
def console() -> Iterator[Callable[[Config], Console]]:
    """Return a function that starts a fresh console on a workspace."""
    started: list[Console] = []

    def start(settings: Config) -> Console:
        one = Console(settings.home)
        started.append(one)
        one.wait()
        return one

    yield start
    for one in started:
        one.stop()


class Tab:
    """One browser tab that remembers every request to another host."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.outside: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("request", self._note)

    def _note(self, request: Request) -> None:
        ours = (self.address, self.address.replace("http", "ws", 1), "data:", "blob:", "about:")
        if not request.url.startswith(ours):
            self.outside.append(request.url)

    def open(self, path: str) -> None:
        """Open a page by its address and wait until it is drawn."""
        self.page.goto(f"{self.address}/{path}", timeout=PATIENCE_MS)
        self.settled()

    def settled(self) -> None:
        """Wait until the script has run."""
        self.page.wait_for_selector(DONE)
        self.page.wait_for_selector('[data-testid="stHeading"]')


@pytest.fixture
def tab(chromium: Browser) -> Iterator[Callable[[Console], Tab]]:
    """Return a function that opens a tab on a console; at the end no request may have left for another host."""
    opened: list[Tab] = []

    def start(console: Console) -> Tab:
        context = chromium.new_context(viewport={"width": 1440, "height": 900})
        one = Tab(context.new_page(), console.address)
        opened.append(one)
        return one

    yield start
    for one in opened:
        one.page.context.close()
    assert [url for one in opened for url in one.outside] == []
