"""The journeys a reader takes, in a real Chromium on a real console."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect

from core.config import Config
from core.ledger.ledger import verify
from core.ledger.store import open_workspace
from core.records.trace import ArmName
from pages._parts.literal import literal
from tests.browser.conftest import PATIENCE_MS, Console, Tab
from tests.pages.homes import build, executions, hostile, manifest
from tests.pages.made import in_arm

pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE_MS)

Start = Callable[[Config], Console]
Open = Callable[[Console], Tab]


@pytest.fixture
def home(tmp_path: Path) -> Config:
    return build(tmp_path / "home", executions(), [manifest()])


def one_id(settings: Config, arm: str, *, fired: bool) -> str:
    (part,) = settings.traces.rglob("*.parquet")
    rows = pq.read_table(part, columns=["trace_id", "arm", "fired"]).to_pylist()
    return next(str(r["trace_id"]) for r in rows if (r["arm"], r["fired"]) == (arm, fired))


def test_from_the_overview_to_a_silent_trace_to_its_arms_and_back(home: Config, console: Start, tab: Open) -> None:
    here = tab(console(home))
    here.open("")
    page = here.page
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.get_by_role("link", name="C3 rows").click()
    expect(page.get_by_role("heading", name="Traces")).to_be_visible()
    assert "f=arm%3Aeq%3AC3" in page.url
    page.get_by_text("right silence · 8").click()
    expect(page.get_by_text("8 executions")).to_be_visible()
    search = page.get_by_label("Search", exact=True).first
    silent = one_id(home, "C3", fired=False)
    search.fill(silent)
    search.press("Enter")
    expect(page.get_by_text("Silent, correctly: the trigger scored 0.03")).to_be_visible()
    page.get_by_role("link", name="Open C2 always on").click()
    expect(page.get_by_text("Fired, and should have stayed silent")).to_be_visible()
    expect(page).not_to_have_url(re.compile(silent))  # the address is that of the arm now, and can be shared
    expect(page).to_have_url(re.compile("trace="))
    page.get_by_role("link", name="Back to the list").click()
    expect(page.get_by_text("8 executions")).to_be_visible()
    expect(page).not_to_have_url(re.compile("trace="))  # a link to the same page: the address follows all the same
    assert "outcome%3Aeq%3Aright+silence" in page.url
    page.get_by_test_id("stSidebar").get_by_role("link", name="Traces").click()
    expect(page.get_by_text("80 executions")).to_be_visible()
    expect(page).not_to_have_url(re.compile("f="))
    page.go_back()
    expect(page.get_by_text("8 executions")).to_be_visible()


def test_a_click_on_a_row_opens_it(home: Config, console: Start, tab: Open) -> None:
    here = tab(console(home))
    here.open("traces?f=arm:eq:C3")
    box = here.page.get_by_test_id("stDataFrame").first.bounding_box()
    assert box is not None
    here.page.mouse.click(box["x"] + 330, box["y"] + 60)  # the event's text in the first row
    expect(here.page.get_by_text("Back to the list")).to_be_visible()
    expect(here.page).to_have_url(re.compile("trace="))


def test_a_deep_link_to_a_filtered_list_on_a_fresh_server(home: Config, console: Start, tab: Open) -> None:
    here = tab(console(home))
    here.open("traces?f=arm:eq:C3&f=boundary:eq:restart&sort=score:desc")
    expect(here.page.get_by_role("heading", name="Traces")).to_be_visible()
    expect(here.page.get_by_text("8 executions")).to_be_visible()
    expect(here.page.get_by_role("combobox", name="Order")).to_have_value("Highest score first")
    expect(here.page.get_by_test_id("stMain")).to_contain_text("no scheduler yet")


def test_a_deep_link_to_one_trace_on_a_fresh_server(home: Config, console: Start, tab: Open) -> None:
    here = tab(console(home))
    here.open(f"traces?trace={one_id(home, 'C3', fired=True)}&f=arm:eq:C3")
    expect(here.page.get_by_text("Fired, correctly: the trigger scored 0.91")).to_be_visible()
    expect(here.page.locator(".js-plotly-plot")).to_have_count(4)


def test_a_bad_filter_in_the_address_shows_a_sentence_and_no_rows(home: Config, console: Start, tab: Open) -> None:
    here = tab(console(home))
    here.open("traces?f=bogus:eq:1")
    expect(here.page.get_by_role("alert")).to_contain_text("names 'bogus', which is not a column here.")
    expect(here.page.get_by_test_id("stDataFrame")).to_have_count(0)
    here.page.get_by_role("link", name="Open this page afresh").click()
    expect(here.page.get_by_text("80 executions")).to_be_visible()


def test_the_four_mutants_run_on_the_real_backbone_each_caught_by_its_check(
    home: Config, console: Start, tab: Open
) -> None:
    here = tab(console(home))
    here.open(f"traces?trace={one_id(home, 'C3', fired=False)}")
    here.page.get_by_role("button", name="Run the four faulty controllers").click()
    table = here.page.get_by_role("table", name="what the audit says of each controller")
    expect(table.get_by_role("row")).to_have_count(6)  # the head, the true controller, four mutants
    said = [[c.inner_text().replace("\u00a0", " ") for c in row.get_by_role("cell").all()]
            for row in table.get_by_role("row").all()[1:]]  # fmt: skip
    assert [[n for n, c in enumerate(row[1:5]) if c == "✕ failed"] for row in said] == [[], [0], [1], [2], [3]]
    assert [row[5] for row in said] == ["✓ yes"] * 5


def test_a_row_is_annotated_by_keyboard_alone(home: Config, console: Start, tab: Open) -> None:
    here = tab(console(home))
    here.open("traces")
    page = here.page
    reach(here, "Search")
    page.keyboard.type(one_id(home, "C3", fired=False))
    page.keyboard.press("Enter")
    expect(page.get_by_text("Silent, correctly")).to_be_visible()
    here.settled()
    reach(here, "Label")
    page.keyboard.type("looks right")
    page.keyboard.press("Tab")
    page.keyboard.type("read it twice")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Stored as entry 4.")).to_be_visible()
    with open_workspace(home) as store:
        assert verify(store).count == 4


def reach(here: Tab, label: str) -> None:
    """Press Tab until the field of this label has the focus."""
    for _ in range(200):
        here.page.keyboard.press("Tab")
        if here.page.evaluate("document.activeElement && document.activeElement.getAttribute('aria-label')") == label:
            return
    raise AssertionError(f"{label} cannot be reached with the keyboard")


def test_text_is_shown_as_typed_and_never_obeyed(tmp_path: Path, console: Start, tab: Open) -> None:
    settings = build(tmp_path / "home", hostile(), [manifest()])
    here = tab(console(settings))
    here.open(f"traces?trace={one_id(settings, 'C3', fired=False)}")
    page = here.page
    expect(page.get_by_text("Condition, stored earlier")).to_be_visible()
    main = page.get_by_test_id("stMain")
    for obeyed in ("script", "a[href*='evil']", "img[src*='evil']", ".katex", "b"):
        expect(main.locator(obeyed)).to_have_count(0)
    shown = main.inner_text()
    for part in ("$x^2$", "<b>bold</b>", "**md**", ":red[red]", ":smile:", "[link](https://evil.example)", "⟨U+202E⟩"):
        assert part in shown.replace("\u200b", "")


PIECES = [
    "$x^2$ and $$y$$", "<b>bold</b> &amp; <script>", "**md** __md__ ~~md~~", "`code`", ":red[red] :blue-badge[b]",
    ":smile: :+1:", ":material/home: :streamlit:", "[link](https://evil.example)", "![i](https://evil.example/i.png)",
    "https://evil.example www.evil.example a@evil.example", "a -> b <- c <-> d -- e >= f <= g ~= h", "# heading",
    "1. list", "- item", "> quote", "| a | b |", "\\$ \\* \\\\", "    four blanks", "a  b", "[^1] [x]: y", "a_b_c *d*",
    "12:30:45 arm:eq:C3", "-> start", "end ->",
]  # fmt: skip


def test_literal_shows_every_piece_exactly(tmp_path: Path, console: Start, tab: Open) -> None:
    assert all(literal(p) for p in PIECES)
    made = [in_arm(ArmName.C3, fired=False, family=piece) for piece in PIECES]
    settings = build(tmp_path / "home", made, [manifest()])
    here = tab(console(settings))
    here.open("traces")
    chips = here.page.get_by_test_id("stSidebar").get_by_test_id("stButtonGroup")
    expect(chips.nth(4)).to_be_visible()
    shown = chips.nth(4).inner_text().replace("\u200b", "").replace("\u00a0", " ")
    for piece in PIECES:
        start = piece.replace("_", " ")[:27].strip()
        assert start in shown, f"{piece!r} is not shown as typed"


def test_light_and_dark_are_both_drawn(home: Config, console: Start, tab: Open) -> None:
    here = tab(console(home))
    grounds = []
    for scheme in ("light", "dark"):
        here.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        here.open("")
        grounds.append(here.page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor"))
    assert grounds[0] != grounds[1]
