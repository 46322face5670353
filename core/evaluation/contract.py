"""A frozen contract: its criteria, read strictly, and the decision each of them gives.

Promise: a decision depends on the contract's bytes and the estimates alone. Refused by file and line: another header,
a blank or short line, an unknown statistic or direction, a threshold that is no finite number, a metric named twice.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core.config import DATA
from core.errors import InputError, quoted
from core.evaluation.estimate import Estimate
from core.hashing import sha256_hex
from core.records.run import CriterionRow, Decided

CONTRACTS = DATA / "contracts"
HEADER = ["metric", "statistic", "direction", "threshold", "threshold_from", "note"]
STATISTICS = ("point", "ci_low")
DIRECTIONS = (">=", "<=", "=")


@dataclass(frozen=True)
class Criterion:
    """One line of a contract."""

    metric: str
    statistic: str
    direction: str
    threshold: float
    threshold_from: str
    note: str


@dataclass(frozen=True)
class Contract:
    """A named set of criteria and the hash of the bytes that hold it."""

    name: str
    sha256: str
    criteria: tuple[Criterion, ...]


def parse(name: str, data: bytes, where: str) -> Contract:
    """Read a contract from its bytes.

    Raises
    ------
    InputError : any line that is not a criterion, with its number.
    """

    def bad(line: int, what: str) -> InputError:
        return InputError(f"The contract's line {line} {what}.", where=f"{where}:{line}")

    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise InputError("The contract is not UTF-8 text.", where=where) from e
    if "\x00" in text:
        raise InputError("The contract holds a NUL character.", where=where)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    criteria: dict[str, Criterion] = {}
    try:
        if next(reader, None) != HEADER:
            raise bad(1, f"is not the header {','.join(HEADER)}")
        for row in reader:
            line = reader.line_num
            if len(row) != len(HEADER):
                raise bad(line, f"has {len(row)} columns instead of {len(HEADER)}")
            metric, statistic, direction, threshold, origin, note = row
            if not metric or metric != metric.strip():
                raise bad(line, f"names no metric ({quoted(metric)})")
            if metric in criteria:
                raise bad(line, f"names {metric} a second time")
            if statistic not in STATISTICS:
                raise bad(line, f"has statistic {quoted(statistic)}; allowed are {', '.join(STATISTICS)}")
            if direction not in DIRECTIONS:
                raise bad(line, f"has direction {quoted(direction)}; allowed are {', '.join(DIRECTIONS)}")
            try:
                value = float(threshold)
            except ValueError as e:
                raise bad(line, f"has threshold {quoted(threshold)}, which is not a number") from e
            if not math.isfinite(value):
                raise bad(line, f"has threshold {quoted(threshold)}, which is not finite")
            if not origin.strip():
                raise bad(line, "does not say where its threshold comes from")
            criteria[metric] = Criterion(metric, statistic, direction, value, origin, note)
    except csv.Error as e:
        raise bad(reader.line_num, f"is not CSV: {e}") from e
    if not criteria:
        raise InputError("The contract holds no criterion.", where=where)
    return Contract(name, sha256_hex(data), tuple(criteria.values()))


def load(name: str, folder: Path = CONTRACTS) -> Contract:
    """Read `<folder>/<name>.csv`.

    Raises
    ------
    InputError : no such contract, or a bad line.
    """
    path = folder / f"{name}.csv"
    try:
        data = path.read_bytes()
    except OSError as e:
        raise InputError(f"There is no contract {quoted(name)}.", where=str(path)) from e
    return parse(name, data, str(path))


def margin(criterion: Criterion, value: float) -> float:
    """Return the distance to the threshold, above 0 on the allowed side (`=`: 0 when equal, else below 0)."""
    distance = value - criterion.threshold
    if criterion.direction == ">=":
        return distance
    return 0.0 + (-distance if criterion.direction == "<=" else -abs(distance))  # 0.0 +: never a negative zero


def decide(
    contract: Contract, estimates: Mapping[str, Estimate], *, run_id: str | None, method: str = "C3"
) -> tuple[CriterionRow, ...]:
    """Hold estimates to a contract, one row a criterion, in the contract's order.

    Parameters
    ----------
    estimates : by metric; an undefined one gives `undefined`, never 0.

    Raises
    ------
    InputError : the contract names a metric that was not estimated at all.
    """
    rows = []
    for c in contract.criteria:
        if (estimate := estimates.get(c.metric)) is None:
            raise InputError(f"The contract {contract.name} names {c.metric}, which this evaluation does not compute.")
        value = estimate.observed if c.statistic == "point" else estimate.ci_low
        distance = None if value is None else margin(c, value)
        decision = Decided.UNDEFINED if distance is None else Decided.MET if distance >= 0 else Decided.NOT_MET
        rows.append(
            CriterionRow(
                contract=contract.name,
                run_id=run_id,
                method=method,
                metric=c.metric,
                statistic=c.statistic,
                observed=estimate.observed,
                direction=c.direction,
                threshold=c.threshold,
                margin=distance,
                ci_low=estimate.ci_low,
                ci_high=estimate.ci_high,
                n=estimate.n,
                decision=decision,
            )
        )
    return tuple(rows)
