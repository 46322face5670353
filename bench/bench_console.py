"""How long a reader waits: `up` until it prints its address, the first page of that server, the same page again.

    python bench/bench_console.py HOME

Beside them, what the reader would wait for without a console: reading the run's Parquet files into pandas and counting
the arms by hand, in a fresh interpreter. Absolute times belong to this machine; the ratio is what travels.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = os.environ.get("DUEBOOK_CHROMIUM", "/usr/bin/chromium")
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
PATIENCE_MS = 240_000
DRAWN = """() => document.querySelector('[data-testid="stApp"]')?.dataset.testScriptState === 'notRunning'
  && document.querySelector('[data-testid="stHeading"]') && !document.querySelector('[data-testid="stSkeleton"]')"""
BY_HAND = """
import sys, pandas as pd
from pathlib import Path
rows = pd.concat([pd.read_parquet(p) for p in Path(sys.argv[1]).rglob("*.parquet")])
right = rows.groupby(["run_id", "arm", "seed", "episode_id"])["correct"].all()
print(right.groupby(["run_id", "arm"]).agg(["sum", "count"]))
"""


def seconds(start: float) -> float:
    """Return the seconds since an instant of the monotonic clock."""
    return round(time.perf_counter() - start, 2)


def main() -> None:
    """Measure once and print one JSON document."""
    parser = argparse.ArgumentParser(description="First page of a console on a workspace")
    parser.add_argument("home", type=Path)
    home = parser.parse_args().home.resolve()
    found: dict[str, float] = {}
    command = [sys.executable, "-m", "core", "--home", str(home), "--json", "up"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        page = browser.new_page()
        page.goto("about:blank")
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            base = json.loads(process.stdout.readline())["address"]
            found["address_printed_s"] = seconds(start)
            for name, path in (("first_page_s", ""), ("same_page_again_s", ""), ("traces_page_s", "traces")):
                start = time.perf_counter()
                page.goto(f"{base}/{path}", timeout=PATIENCE_MS)
                page.wait_for_function(DRAWN, timeout=PATIENCE_MS)
                found[name] = seconds(start)
        finally:
            process.terminate()
            process.wait(30)
        browser.close()
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", BY_HAND, str(home / "traces")], check=False, stdout=subprocess.DEVNULL)
    found["by_hand_in_pandas_s"] = seconds(start)
    found["first_page_over_by_hand"] = round(found["first_page_s"] / found["by_hand_in_pandas_s"], 2)
    found["load_average"] = round(os.getloadavg()[0], 1)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
