"""`annotate KIND ID --label L`: a remark on a trace, case, run or record; a correction names what it replaces.

A reason is stored as it was given; characters in it that a terminal would obey are printed as their number.
"""

from __future__ import annotations

import argparse
from contextlib import closing

from core.acts.annotate import annotate, known_in, request
from core.acts.identity import asserted
from core.cli.base import Result, Subparsers
from core.config import Config
from core.errors import InputError
from core.ledger.store import open_workspace
from core.records.annotation import TargetKind
from core.views.views import Views


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser("annotate", help="label a trace, case, run or record", description=__doc__)
    kinds = [kind.value for kind in TargetKind]
    parser.add_argument("kind", metavar="KIND", choices=kinds, help=", ".join(kinds))
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--label", required=True, metavar="L", help="a few words")
    parser.add_argument("--text", metavar="T", help="the reason")
    parser.add_argument("--replaces", metavar="ID", help="the annotation this one corrects")
    parser.add_argument(
        "--expected-seq", type=int, metavar="N", help="refuse if the last remark on it is not entry N (0: none)"
    )


def run(args: argparse.Namespace, config: Config) -> Result:
    """Store the remark."""
    if args.expected_seq is not None and args.expected_seq < 0:
        raise InputError("--expected-seq is the number of a ledger entry, or 0 for none.")
    wanted = request(args.kind, args.id, args.label, args.text, args.replaces)
    with open_workspace(config) as store, closing(Views(config)) as views:
        with views.snapshot() as snapshot:
            exists = known_in(snapshot)(wanted.target_kind, wanted.target_id)
        done = annotate(
            store, asserted(config), wanted, exists=lambda _kind, _id: exists, expected_seq=args.expected_seq
        )
    document = {**done.annotation.model_dump(mode="json"), "seq": done.seq}
    return Result(document, f"{done.annotation.id}: entry {done.seq}")
