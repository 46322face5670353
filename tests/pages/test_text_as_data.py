"""No text of a user, a model or a file reaches a Markdown or HTML sink except through `literal`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.config import ROOT

LABELLED = {
    "badge", "button", "caption", "checkbox", "code_block", "date_input", "download_button", "error",
    "expander", "file_uploader", "form_submit_button", "header", "info", "link_button", "markdown", "metric",
    "multiselect", "number_input", "page_link", "pills", "popover", "progress", "radio", "segmented_control",
    "select_slider", "selectbox", "slider", "spinner", "status", "subheader", "success", "tabs", "text_area",
    "text_input", "title", "toast", "toggle", "warning",
}  # fmt: skip
"""Streamlit calls that read Markdown in their first argument, `label`, `body` or `help`."""
TEXT_KEYWORDS = {"label", "body", "help", "tabs", "delta", "captions", "text"}
OPTIONS_READ_MARKDOWN = {"radio", "pills", "segmented_control"}
BANNED_CALLS = {
    "html", "write", "write_stream", "latex", "table", "image", "iframe", "exception", "LinkColumn", "ImageColumn",
    "MarkdownColumn", "components", "logo", "link_button",
}  # fmt: skip
BANNED_KEYWORDS = {"unsafe_allow_html", "unsafe_allow_javascript"}
ESCAPING = {"show.py": "st.table"}
"""The one place where a banned call stands, with its cells escaped: `show.words`, tested below."""
SOURCES = sorted([ROOT / "app.py", *(ROOT / "pages").rglob("*.py")])


def is_safe(node: ast.expr) -> bool:
    """Say whether an expression can only be a text we wrote, or one that went through `literal`."""
    match node:
        case ast.Constant():
            return True
        case ast.Call(func=ast.Name(id="literal")):
            return True
        case ast.Attribute(value=ast.Name(id="strings"), attr=name):
            return name.isupper()
        case ast.JoinedStr(values=values):
            return all(is_safe(v.value) if isinstance(v, ast.FormattedValue) else True for v in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return is_safe(left) and is_safe(right)
        case ast.IfExp(body=body, orelse=orelse):
            return is_safe(body) and is_safe(orelse)
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            return all(is_safe(e) for e in elts)
        case ast.ListComp(elt=elt):
            return is_safe(elt)
    return False


def problems(source: str) -> list[str]:
    """Return what in a module's source bypasses `literal`, one line each."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in BANNED_CALLS
            and isinstance(node.value, ast.Name | ast.Attribute)
        ):
            owner = ast.unparse(node.value)
            if owner.split(".")[0] == "st":
                found.append(f"line {node.lineno}: {owner}.{node.attr} is banned")
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        name = node.func.attr
        found += [f"line {node.lineno}: {k.arg} is banned" for k in node.keywords if k.arg in BANNED_KEYWORDS]
        if name not in LABELLED:
            continue
        texts = [*node.args[:1], *(k.value for k in node.keywords if k.arg in TEXT_KEYWORDS)]
        if name == "page_link":  # its first argument is a script, not a text
            texts = texts[1:] if node.args else texts
        if name == "metric":
            texts += node.args[1:3]
            texts += [k.value for k in node.keywords if k.arg == "value"]
        found += [
            f"line {node.lineno}: st.{name}({ast.unparse(t)}) bypasses literal()" for t in texts if not is_safe(t)
        ]
        if name in OPTIONS_READ_MARKDOWN:
            form = next((k.value for k in node.keywords if k.arg == "format_func"), None)
            by_lambda = isinstance(form, ast.Lambda) and is_safe(form.body)
            by_literal = isinstance(form, ast.Name) and form.id == "literal"
            constant = len(node.args) > 1 and is_safe(node.args[1])
            if not (by_lambda or by_literal or constant):
                found.append(f"line {node.lineno}: the options of st.{name} bypass literal()")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_text_reaches_a_markdown_sink_except_through_literal(path: Path) -> None:
    allowed = ESCAPING.get(path.name)
    found = problems(path.read_text())
    assert [p for p in found if allowed is None or f" {allowed} is banned" not in p] == []
    assert len(found) == (allowed is not None)


def wordy() -> None:
    import pandas as pd

    from pages._parts import show
    from tests.pages.made import HOSTILE

    show.words(pd.DataFrame({"a": [HOSTILE, None], "**b**": ["<b>x</b> :red[y] $z$", 0.25]}), alt="x")


def test_a_table_of_words_shows_its_cells_as_typed() -> None:
    (shown,) = AppTest.from_function(wordy).run().table
    assert [c.replace("\\", "") for c in shown.value.columns] == ["a", "**b**"]
    first, second = shown.value.iloc[:, 0], shown.value.iloc[:, 1]
    for cell in (*first, *second, *shown.value.columns):
        assert not re.search(r"(?<!\\)[<>*_`$\[\]|]", cell), cell  # every sign that Markdown reads is escaped
    assert second[0].replace("\\", "").replace("\u200b", "") == "<b>x</b> :red[y] $z$"
    assert (first[1], second[1].replace("\\", "")) == ("—", "0.25")


@pytest.mark.parametrize(
    "line",
    [
        "st.markdown(name)",
        "st.caption(f'hello {name}')",
        "st.error(str(e))",
        "column.metric('n', value)",
        "st.tabs([name])",
        "st.expander(label=name)",
        "st.button('ok', help=name)",
        "st.page_link('app.py', label=name)",
        "st.pills('arm', names)",
        "st.pills('arm', names, format_func=str)",
        "st.html('x')",
        "st.markdown('x', unsafe_allow_html=True)",
        "st.column_config.LinkColumn('x')",
        "st.write('x')",
        "with st.sidebar:\n    st.write(x)",
    ],
)
def test_the_check_refuses(line: str) -> None:
    assert problems(line) != []


@pytest.mark.parametrize(
    "line",
    [
        "st.markdown('**fixed**')",
        "st.caption(literal(name))",
        "st.caption(f'n = {literal(n)}')",
        "st.caption(strings.HELP)",
        "st.text(name)",
        "st.code(name)",
        "st.tabs([literal(n) for n in names])",
        "st.pills('arm', names, format_func=literal)",
        "st.pills('arm', names, format_func=lambda v: literal(words[v]))",
        "logging.getLogger('x').warning('%s', y)" if False else "st.page_link(entry.path, label=literal(t))",
    ],
)
def test_the_check_lets_pass(line: str) -> None:
    assert problems(line) == []


def test_pages_are_short_and_hold_no_sql_and_no_arithmetic() -> None:
    for path in (ROOT / "app.py", *(ROOT / "pages").glob("*.py")):
        source = path.read_text()
        assert len(source.splitlines()) <= 80, f"{path.name} is too long"
        tree = ast.parse(source)
        operations = [n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and not isinstance(n.op, ast.BitOr)]
        assert operations == [], f"{path.name} calculates in line {operations[0].lineno}" if operations else ""
        words = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        assert not [w for w in words if w.upper().startswith(("SELECT ", "WITH "))], f"{path.name} holds SQL"
