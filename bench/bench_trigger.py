"""How fast the trigger judges, beside what one would write instead: plain Python features and torch, pair by pair.

    python bench/bench_trigger.py

One run. Absolute times depend on the machine and on what else it does; the ratios are measured side by side.
"""

from __future__ import annotations

import math
import os
import platform
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter, process_time
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from safetensors.torch import load_file

from core.evaluation.pairs import bank
from core.triggers.device import single_thread
from core.triggers.learned import features as f
from core.triggers.learned import mlp
from core.triggers.lock import MLP_FOLDER

GRID = 1000
FRESH = 10_000
LIVE = 300
NAIVE_PAIRS = 2_000

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*|\?")


def fresh(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Return pairs of texts none of which was seen before: a scene's words and a number of their own."""
    rng, source = Random(seed), bank("evaluation")
    scenes = [source.scene(rng) for _ in range(count)]
    return (
        [f"{s.condition} under order {seed}{n:05d}" for n, s in enumerate(scenes)],
        [f"{s.exact_event} See order {seed}{n:05d}." for n, s in enumerate(scenes)],
    )


class Naive:
    """The same 16 numbers, text by text and pair by pair, and torch for each row."""

    def __init__(self) -> None:
        single_thread()
        tensors = load_file(MLP_FOLDER / "weights.safetensors")
        self.layers = [(tensors[f"{n}.weight"], tensors[f"{n}.bias"]) for n in range(3)]

    def score(self, condition: str, event: str) -> float:
        """Return one pair's score."""
        x = torch.tensor(self.features(condition, event), dtype=torch.float32)
        with torch.no_grad():
            for n, (weight, bias) in enumerate(self.layers):
                x = torch.nn.functional.linear(x, weight, bias)
                x = torch.nn.functional.gelu(x) if n < 2 else torch.sigmoid(x)
        return float(x[0])

    def features(self, condition: str, event: str) -> list[float]:
        """Return one pair's features."""
        c, e = (WORD.findall(t.casefold().replace("’", "'")) for t in (condition, event))
        cs, es = set(c), set(e)
        cc, ec = ({t for t in s if t not in f._STOP and t not in f._CUE_OF} for s in (cs, es))
        cues = [0, 0]
        for side, tokens in enumerate((c, e)):
            for token in tokens:
                cues[side] |= f._CUE_OF.get(token, 0)
        negated = [bool(k & f.NEGATION) for k in cues]
        lengths = sorted((len(c), len(e)))
        return [
            cosine(Counter(map(bucket, c)), Counter(map(bucket, e))),
            cosine(Counter(map(bucket, grams(c))), Counter(map(bucket, grams(e)))),
            len(cs & es) / max(1, len(cs | es)),
            len(cc & ec) / max(1, len(cc | ec)),
            len(cs & es) / max(1, len(cs)),
            len(cc & ec) / max(1, len(cc)),
            *(float(b) for b in (*negated, negated[0] != negated[1])),
            *(float(bool(cues[1] & k)) for k in (f.FUTURE, f.HEDGE, f.CONFIRMATION, f.CONTRADICTION)),
            min(len(c), 32) / 32,
            min(len(e), 64) / 64,
            lengths[0] / max(1, lengths[1]),
        ]


def bucket(text: str) -> int:
    """Return the text's hash bucket."""
    return zlib.crc32(text.encode()) % f.BUCKETS


def grams(tokens: Iterable[str]) -> list[str]:
    """Return the character trigrams inside the tokens."""
    return [f"^{t}$"[i : i + 3] for t in tokens for i in range(len(t))]


def cosine(a: Counter[int], b: Counter[int]) -> float:
    """Return the cosine of two bags."""
    norm = math.sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))
    return sum(v * b[k] for k, v in a.items()) / norm if norm else 0.0


class Spent(NamedTuple):
    """What one piece of work took, in seconds."""

    wall: float
    cpu: float


def spent(work: Callable[[], object]) -> Spent:
    """Return the seconds one call takes."""
    wall, cpu = perf_counter(), process_time()
    work()
    return Spent(perf_counter() - wall, process_time() - cpu)


def slower(both: Iterable[Spent]) -> Spent:
    """Return the slower of two processes that worked side by side."""
    return max(both)


def median(times: Iterable[Spent]) -> Spent:
    """Return the median of each clock."""
    walls, cpus = zip(*times, strict=True)
    return Spent(sorted(walls)[len(walls) // 2], sorted(cpus)[len(cpus) // 2])


def ours_fresh(seed: int) -> Spent:
    """Score FRESH / 2 fresh pairs, in a process of its own."""
    trigger, (c, e) = mlp.load(), fresh(FRESH // 2, seed)
    trigger.judge(c[0], e[0])
    return spent(lambda: trigger.score_pairs(c, e))


def naive_fresh(seed: int) -> Spent:
    """Do the same the naive way on NAIVE_PAIRS / 2 pairs."""
    naive, (c, e) = Naive(), fresh(NAIVE_PAIRS // 2, seed)
    naive.score(c[0], e[0])
    return spent(lambda: [naive.score(a, b) for a, b in zip(c, e, strict=True)])


def row(what: str, ours: Spent, naive: Spent, target: str) -> None:
    """Print one row; ours and naive in seconds a decision."""
    if target.startswith("<"):
        shown = [f"{s * 1e6:12,.0f}" for s in (ours.wall, ours.cpu, naive.cpu)]
    else:
        shown = [f"{1 / s:12,.0f}" for s in (ours.wall, ours.cpu, naive.cpu)]
    print(f"{what:56}{''.join(shown)}{naive.cpu / ours.cpu:8.1f}   {target}")


def main() -> None:
    """Measure and print the table."""
    trigger, naive = mlp.load(), Naive()
    c, e = fresh(GRID, 1)
    both = list(zip(c, e, strict=True))
    apart = max(abs(naive.score(a, b) - trigger.judge(a, b).score) for a, b in both[:100])
    live = median(spent(partial(trigger.judge, a, b)) for a, b in both[:LIVE])
    live_naive = median(spent(partial(naive.score, a, b)) for a, b in both[:LIVE])
    grid = spent(lambda: trigger.score_grid(c, e))
    grid_naive = spent(lambda: [naive.score(a, b) for a in c[:2] for b in e])
    with ProcessPoolExecutor(2) as pool:
        two = slower(pool.map(ours_fresh, (2, 3)))
        two_naive = slower(pool.map(naive_fresh, (4, 5)))

    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}")
    print("One run on a machine that does other things too: its CPU time and the ratio (of CPU times) say more than")
    print(f"its wall time. The two ways differ by at most {apart:.1e} on 100 pairs.\n")
    print(f"{'what':56}{'wall':>12}{'CPU':>12}{'naive CPU':>12}{'ratio':>8}   target")
    row(f"one live decision, one thread, median of {LIVE} (us)", live, live_naive, "< 1,000")
    row(f"{GRID:,} conditions x {GRID:,} events (pairs/s)", each(grid, GRID * GRID),
        each(grid_naive, 2 * GRID), ">= 50,000")  # fmt: skip
    row("fresh texts, two processes (pairs/s)", each(two, FRESH), each(two_naive, NAIVE_PAIRS), ">= 15,000")


def each(total: Spent, count: int) -> Spent:
    """Return the seconds a decision."""
    return Spent(total.wall / count, total.cpu / count)


if __name__ == "__main__":
    main()
