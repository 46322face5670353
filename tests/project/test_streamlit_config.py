"""Every key of the console's configuration exists in Streamlit, and those that keep a promise say so."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

from streamlit import config as streamlit_config

from core.config import ROOT

TEXT = (ROOT / ".streamlit" / "config.toml").read_text()
OWN = tomllib.loads(TEXT)


def keys(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from keys(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def test_every_key_is_one_that_streamlit_knows() -> None:
    known = streamlit_config.get_config_options()
    assert [name for name, _ in keys(OWN) if name not in known] == []


def test_the_promises_are_kept() -> None:
    own = dict(keys(OWN))
    promised = {
        "client.showErrorDetails": "none",
        "client.showSidebarNavigation": False,
        "server.address": "127.0.0.1",
        "server.maxUploadSize": 50,
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": False,
        "runner.magicEnabled": False,
    }
    assert {name: own[name] for name in promised} == promised


def test_nothing_names_another_host() -> None:
    assert re.findall(r"https?:|//|@import|url\(", TEXT) == []


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    bright, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def test_text_and_accent_can_be_read_on_both_grounds() -> None:
    """WCAG AA: 4.5 for text and links."""
    assert round(contrast("#FFFFFF", "#000000"), 6) == 21
    for theme in ("light", "dark"):
        own = OWN["theme"][theme]
        for ground in (own["backgroundColor"], own["secondaryBackgroundColor"]):
            for colour in (own["textColor"], own["linkColor"], own["primaryColor"]):
                assert contrast(colour, ground) >= 4.5, (theme, colour, ground)
