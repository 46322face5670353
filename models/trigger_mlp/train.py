"""Train the paper's trigger, choose its threshold, lock both, and only then score the test split. One file, top down.

    python models/trigger_mlp/train.py [--force]

Writes weights.safetensors, lock.json and results.json beside itself; the same bytes on every run. Refuses to replace
a lock that was made from other data unless told to with --force.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

# The slowest instruction sets, so that the weights do not depend on the processor's newest ones.
os.environ["MKL_CBWR"] = "COMPATIBLE"
os.environ["ATEN_CPU_CAPABILITY"] = "default"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import torch
from safetensors.numpy import save
from torch import nn

from core.errors import DuebookError
from core.evaluation import pairs
from core.hashing import sha256_file, sha256_hex
from core.triggers.device import single_thread
from core.triggers.learned.features import encode, features
from core.triggers.learned.mlp import WEIGHT_STEP, MlpTrigger, fixed_point
from core.triggers.lexical import payload_similarity
from core.triggers.lock import code_hash, lock_hash

# Constants, all but the last from the paper (section 3.4).
SEED = 2026
HIDDEN = (64, 32)
DROPOUT = 0.10  # after the first hidden layer only
LEARNING_RATE = 0.002
WEIGHT_DECAY = 1e-4
BATCH = 64
EPOCHS = 80
# Thresholds tried. Highest balanced accuracy on validation wins; of equal ones the middle, because it lies farthest
# from the scores on either side (the lower of two middles).
GRID = [round(k / 100, 2) for k in range(1, 100)]

args = argparse.ArgumentParser(description="Train and lock the paper's trigger.")
args.add_argument("--data", type=Path, default=pairs.FOLDER, help="folder of train, validation and test .jsonl")
args.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write")
args.add_argument("--force", action="store_true", help="replace a lock made from other data")
told = args.parse_args()


def choose(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Return the threshold of GRID with the highest balanced accuracy, the middle one of equals, and that accuracy."""
    reached = [balanced(scores >= t, labels) for t in GRID]
    best = [t for t, r in zip(GRID, reached, strict=True) if r == max(reached)]
    return best[(len(best) - 1) // 2], max(reached)


def balanced(fired: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean of sensitivity and specificity."""
    return float((fired[labels == 1].mean() + (~fired[labels == 0]).mean()) / 2)


def figures(rows: list[dict[str, Any]], fired: np.ndarray, labels: np.ndarray) -> dict[str, object]:
    """Return what is reported of a split."""
    right = fired == (labels == 1)
    kinds = sorted({row["kind"] for row in rows})
    at = {kind: np.array([row["kind"] == kind for row in rows]) for kind in kinds}
    return {
        "n": len(rows),
        "right": int(right.sum()),
        "accuracy": round(float(right.mean()), 6),
        "balanced_accuracy": round(balanced(fired, labels), 6),
        "sensitivity": round(float(fired[labels == 1].mean()), 6),
        "specificity": round(float((~fired[labels == 0]).mean()), 6),
        "right_by_kind": {kind: f"{int(right[at[kind]].sum())}/{int(at[kind].sum())}" for kind in kinds},
    }


try:
    # Data. The test file is hashed here and read only after the lock is written.
    split = {name: pairs.read_pairs(told.data / f"{name}.jsonl") for name in ("train", "validation")}
    files = {name: sha256_file(told.data / f"{name}.jsonl") for name in ("train", "validation", "test")}
    data_hash = sha256_hex("".join(f"{name} {digest}\n" for name, digest in sorted(files.items())).encode())
    lock_file = told.out / "lock.json"
    if lock_file.exists() and not told.force and (old := json.loads(lock_file.read_bytes())["data_hash"]) != data_hash:
        sys.exit(f"{lock_file} was made from other data ({old}, now {data_hash}): give --force to replace it.")
    x = {k: np.array([features(encode(r["condition"]), encode(r["event"])) for r in v]) for k, v in split.items()}
    y = {k: np.array([r["label"] for r in v]) for k, v in split.items()}

    # Model and optimiser, in float64: small enough, and less to differ.
    single_thread()
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    torch.set_default_dtype(torch.float64)
    linear = [nn.Linear(16, HIDDEN[0]), nn.Linear(*HIDDEN), nn.Linear(HIDDEN[1], 1)]
    model = nn.Sequential(linear[0], nn.GELU(), nn.Dropout(DROPOUT), linear[1], nn.GELU(), linear[2])
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    loss_of = nn.BCEWithLogitsLoss()

    # Loop.
    inputs, targets = torch.from_numpy(x["train"]), torch.from_numpy(y["train"]).double()  # (720, 16), (720,)
    for epoch in range(EPOCHS):
        total = 0.0
        for batch in torch.split(torch.randperm(len(inputs)), BATCH):
            loss = loss_of(model(inputs[batch])[:, 0], targets[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(batch)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3d}  loss {total / len(inputs):.4f}")

    # Weights, on the grid on which the trigger's sums are exact.
    tensors = {}
    for n, layer in enumerate(linear):
        for part in ("weight", "bias"):
            value = getattr(layer, part).detach().numpy()
            tensors[f"{n}.{part}"] = (np.rint(value / WEIGHT_STEP) * WEIGHT_STEP).astype(np.float32)
    weights = save(tensors)
    means = tuple(float(m) for m in x["train"].mean(axis=0))
    trigger = MlpTrigger(0.5, sha256_hex(weights), fixed_point(tensors), means)

    # Thresholds, on validation alone.
    threshold, reached = choose(trigger.score_features(x["validation"]), y["validation"])
    similarity = np.array([payload_similarity(r["event"], r["payload"]) for r in split["validation"]])
    c1_threshold, c1_reached = choose(similarity, y["validation"])

    # Lock.
    lock: dict[str, object] = {
        "method": "mlp 16-64-32-1, GELU; threshold: highest validation balanced accuracy, the middle of equals",
        "code_hash": code_hash(),
        "data_hash": data_hash,
        "weights_sha256": sha256_hex(weights),
        "threshold": threshold,
        "c1_threshold": c1_threshold,
        "feature_means": means,
    }
    lock["lock_sha256"] = lock_hash({**lock, "feature_means": list(means)})
    told.out.mkdir(parents=True, exist_ok=True)
    (told.out / "weights.safetensors").write_bytes(weights)
    lock_file.write_text(json.dumps(lock, indent=1) + "\n", encoding="utf-8")
    print(f"locked: threshold {threshold}, balanced accuracy {reached:.4f} on {len(y['validation'])} validation pairs")
    print(f"        C1 threshold {c1_threshold}, balanced accuracy {c1_reached:.4f} on the same pairs")

    # Test, once.
    test = pairs.read_pairs(told.data / "test.jsonl")
    results = {"lock_sha256": lock["lock_sha256"], "files": files, "c1_validation_balanced_accuracy": c1_reached}
    for name, rows in (("train", split["train"]), ("validation", split["validation"]), ("test", test)):
        scores = trigger.score_pairs([r["condition"] for r in rows], [r["event"] for r in rows])
        results[name] = figures(rows, scores >= threshold, np.array([r["label"] for r in rows]))
    (told.out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"test: {results['test']}")
except DuebookError as e:
    sys.exit(str(e))
