"""The one door for text into Streamlit's Markdown sinks: Markdown, HTML, LaTeX, `:directives[]`, emoji shortcodes,
bare links and arrows are all shown as typed.

Backslashes settle what the parser reads. Streamlit replaces shortcodes, bare links and arrows in the *parsed* text,
where the backslash is gone, so those are broken by a zero-width space. Ids that people copy go through
`st.code` or `st.text`, which read nothing.
"""

from __future__ import annotations

import re

from core.figures.literal import one_line

_BREAK = "\u200b"
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_REPLACED_AFTER_PARSING = re.compile(
    r":(?=[\w+-]+:|//|material/)"  # :emoji: https:// :material/x:
    r"|@(?=\w)"  # bare mail addresses
    r"|www(?=\.)"
    r"|(?:(?<=^)|(?<=\s))(?:<(?=->)|[<>~-](?=[-=>]))",  # arrows and comparison signs between blanks
    re.IGNORECASE,
)


def literal(value: object, limit: int | None = None) -> str:
    """Return any value as Markdown that shows exactly its text, on one line.

    Parameters
    ----------
    value : shown as `str(value)`.
    limit : cut with … after this many characters; None: never.
    """
    broken = _REPLACED_AFTER_PARSING.sub(lambda m: m[0] + _BREAK, one_line(str(value), limit))
    escaped = _PUNCTUATION.sub(lambda m: "\\" + m[0], broken)
    # Leading blanks would make a code block; inner runs would be folded.
    return re.sub(r"^ +| {2,}", lambda m: "\u00a0" * len(m[0]), escaped)
