"""Overview, the front door: what is established, what is rejected, what was never tested."""

from __future__ import annotations

from pages._parts import front
from pages._parts.frame import guarded, open_page

with open_page("app.py") as opened:
    with guarded("app.py"):
        state = front.standing(opened)
        front.what_next(state)
        front.claims(state)
        front.newest(opened, state)
    with guarded("app.py"):
        front.runs(opened)
    front.ledger(opened)
