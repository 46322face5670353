"""Text as data: what a user, a model or a file wrote is shown, never obeyed.

`visible` makes hidden and direction-changing characters readable; `literal` here is for plotly's texts, which read
a little HTML, entities and TeX. The one for Streamlit's Markdown stands in `pages/_parts/literal.py`.
"""

from __future__ import annotations

import re

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but not tab and newline
    "\u202a-\u202e\u2066-\u2069"  # bidirectional embeddings, overrides, isolates
    "\u200b\u2028\u2029\ufeff\ud800-\udfff]"  # zero-width space, line separators, byte-order mark, lone surrogates
)
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]")
_ISOLATE, _END_ISOLATE = "\u2068", "\u2069"


def visible(text: str) -> str:
    """Return the text with characters that hide, or reorder what follows, spelled as `⟨U+202E⟩`.

    Right-to-left letters stay; the text is isolated so that they cannot reorder what stands beside it.
    """
    shown = _HIDDEN.sub(lambda m: f"⟨U+{ord(m[0]):04X}⟩", text)
    return f"{_ISOLATE}{shown}{_END_ISOLATE}" if _RIGHT_TO_LEFT.search(shown) else shown


def one_line(text: str, limit: int | None = None) -> str:
    """Return the text on one line, line ends shown as ↵, cut with … after `limit` characters."""
    cut = text if limit is None or len(text) <= limit else text[: limit - 1] + "…"
    return visible(re.sub(r"\r\n|\r|\n", " ↵ ", cut).replace("\t", " "))


def literal(text: str, limit: int | None = 120) -> str:
    """Return the text for a plotly title, tick, label or hover: no tag, entity or formula in it is read.

    Parameters
    ----------
    text : any text.
    limit : cut after this many characters; None: never.
    """
    shown = one_line(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return shown.replace("$", "&#36;")
