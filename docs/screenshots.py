"""Takes the pictures of `docs/img` from a workspace: every page, light and dark, at two widths, and one execution.

    python docs/screenshots.py HOME [--out docs/img] [--only overview-light]

Needs a Chromium (DUEBOOK_CHROMIUM, default /usr/bin/chromium) and playwright; starts its own console on a free port.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Page, sync_playwright  # noqa: E402

from core import config as configuration  # noqa: E402
from core.records.filter import Filter  # noqa: E402
from core.views.read import traces  # noqa: E402
from core.views.views import Views  # noqa: E402

CHROMIUM = os.environ.get("DUEBOOK_CHROMIUM", "/usr/bin/chromium")
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
PATIENCE_MS = 240_000
WIDTHS = {"": 1440, "-narrow": 1024}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
DRAWN = """() => {
  const app = document.querySelector('[data-testid="stApp"]');
  return app && app.dataset.testScriptState === 'notRunning'
    && document.querySelector('[data-testid="stHeading"]')
    && !document.querySelector('[data-testid="stSkeleton"]');
}"""


def addresses(home: Path) -> dict[str, str]:
    """Return what is pictured: the pages, a silent execution of the complete arm, one that fired."""
    found = {"overview": "", "traces": "traces?f=arm:eq:C3"}
    views = Views(configuration.load(home))
    with views.snapshot() as snapshot:
        for name, tokens in {"silent": ["arm:eq:C3", "null_trial:eq:true", "null_reason:eq:below_threshold"],
                             "fired": ["arm:eq:C3", "fired:eq:true"]}.items():  # fmt: skip
            chosen = Filter.parse(tokens, traces.field_names())
            rows = traces.list_traces(snapshot, chosen, limit=1).answer.rows()
            if rows:
                found[f"trace-{name}"] = f"traces?trace={rows[0]['trace_id']}&f=arm:eq:C3"
    views.close()
    return found


@contextmanager
def console(home: Path) -> Iterator[str]:
    """Run a console on the workspace and give its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "DUEBOOK_HOME": str(home)})
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def take(page: Page, address: str, file: Path, width: int) -> None:
    """Open an address and picture all of it."""
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(address, timeout=PATIENCE_MS)
    page.wait_for_function(DRAWN, timeout=PATIENCE_MS)
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": width, "height": min(max(900, height + 10), 4000)})
    page.wait_for_timeout(1500)  # charts and tables draw themselves anew at the new size
    page.wait_for_function(DRAWN, timeout=PATIENCE_MS)
    page.screenshot(path=file)


def main() -> None:
    """Take every picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("home", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "img")
    parser.add_argument("--only", default="", help="pictures whose name begins with this")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with console(given.home.resolve()) as base, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        for scheme in SCHEMES:
            page = browser.new_context(color_scheme=scheme).new_page()
            for name, path in addresses(given.home).items():
                for suffix, width in WIDTHS.items():
                    if not f"{name}-{scheme}{suffix}".startswith(given.only):
                        continue
                    take(page, f"{base}/{path}", given.out / f"{name}-{scheme}{suffix}.png", width)
            page.context.close()
        browser.close()


if __name__ == "__main__":
    main()
