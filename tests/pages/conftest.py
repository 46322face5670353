"""One running page: open it on a workspace, at an address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core.config import ROOT, Config

Show = Callable[..., AppTest]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Show:
    """Return a function that runs a page on a workspace, with query parameters."""

    def run(path: str, home: Config | Path, **params: str | list[str]) -> AppTest:
        monkeypatch.setenv("DUEBOOK_HOME", str(home.home if isinstance(home, Config) else home))
        st.cache_resource.clear()
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
        if path != "app.py":
            app.switch_page(path)
        for name, value in params.items():
            app.query_params[name] = value
        return app.run()

    return run
