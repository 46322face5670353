"""The console and the commands in a Python where the model packages cannot be imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from core.config import ROOT

WITHOUT = """
import json, sys
for name in ("torch", "transformers", "accelerate", "gguf", "tokenizers", "huggingface_hub"):
    sys.modules[name] = None
"""


def run(code: str) -> Any:
    """Run code without the models; returns its one document."""
    done = subprocess.run([sys.executable, "-c", WITHOUT + code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_page_is_shown(tmp_path: Path) -> None:
    shown = run(f"""
import contextlib, os
from pathlib import Path
os.environ["DUEBOOK_HOME"] = {str(tmp_path / "home")!r}
from core.config import load
from core.ledger.store import open_workspace
open_workspace(load(), create=True).close()
from streamlit.testing.v1 import AppTest
from pages import PAGES
found = []
with contextlib.redirect_stdout(sys.stderr):
    for page in PAGES:
        app = AppTest.from_file(str(Path("app.py").absolute()), default_timeout=120)
        if page.path != "app.py":
            app.switch_page(page.path)
        app.run()
        found.append([page.path, [e.value for e in app.exception], [e.value for e in app.error], len(app.main)])
print(json.dumps(found))
""")
    assert {path for path, *_ in shown} >= {"app.py", "pages/traces.py"}
    for path, exceptions, errors, elements in shown:
        assert (exceptions, errors) == ([], []), path
        assert elements > 0


def test_every_command_can_be_called_and_doctor_says_what_is_missing(tmp_path: Path) -> None:
    document = run("""
from core.cli import base, main
for name in base.GROUPS:
    base._import_group(name)
sys.exit(main(["doctor", "--json"]) > 1)
""")
    lines = {line["name"]: line for line in document["lines"]}
    assert lines["device"]["state"] == "warn"
    assert lines["device"]["text"] == "torch is not installed."
    assert lines["trigger mlp"]["state"] == "ok"


def test_the_papers_trigger_judges(tmp_path: Path) -> None:
    out = tmp_path / "scores.jsonl"
    document = run(f"""
from core.cli import main
sys.exit(main(["score", "--cases", "data/demo/cases.jsonl", "--trigger", "mlp", "--out", {str(out)!r}, "--json"]))
""")
    assert document["cases"] == 8
    assert len(out.read_text().splitlines()) == 8
