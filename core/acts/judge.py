"""Live verdicts: asks the models, writes nothing.

Promise: a missing package or a damaged model is one sentence that says how to get it; the page around it stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from core.backbone.load import load
from core.controller.mutants import Demonstration, demonstrate
from core.triggers.learned import mlp
from core.triggers.learned.features import FEATURE_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.backbone.base import Backbone
    from core.config import Config
    from core.records.trace import Trace

PAPERS_TRIGGER = "mlp"
"""The name traces give the trigger that `feature_effects` asks."""
CHECKS = {
    "no_retrieved_id": "no id retrieved",
    "no_intervention": "no intervention object",
    "no_later_use": "no later read",
    "output_equal": "output equal",
}


def open_backbone(config: Config) -> Backbone:
    """Return the frozen backbone the configuration names; its weights are read when they are first needed.

    Raises
    ------
    MissingPackage : its package is not installed.
    InputError : the configuration names no backbone.
    """
    return load(config.backbone, config)


def feature_effects(values: Sequence[float]) -> pd.DataFrame:
    """Ask the paper's trigger what each feature of one pair does to its score.

    Parameters
    ----------
    values : (16,) features.

    Returns
    -------
    Columns `feature`, `value`, `training mean`, `effect`: the score's log-odds minus what they would be with that
    feature at its training mean. Effects do not add up: the trigger is no sum of features.

    Raises
    ------
    ModelError : the trigger's weights or lock are damaged.
    MissingPackage : safetensors is not installed.
    """
    trigger = mlp.load()
    own = np.asarray(values, np.float64)
    means = np.asarray(trigger.feature_means)
    changed = np.tile(own, (len(own) + 1, 1))  # (17, 16): the pair, then the pair with one feature at its mean
    np.fill_diagonal(changed[1:], means)
    log_odds = trigger.log_odds(changed)
    return pd.DataFrame(
        {"feature": FEATURE_NAMES, "value": own, "training mean": means, "effect": log_odds[0] - log_odds[1:]}
    )


def demonstrate_audit(trace: Trace, backbone: Backbone) -> tuple[Demonstration, ...]:
    """Walk a trace's null path again with the true controller and the four mutants; nothing is stored.

    Raises
    ------
    InputError : the trace did not take the null path.
    MissingPackage, ModelError : the backbone cannot answer.
    """
    return demonstrate(trace, backbone)


def demonstration_table(shown: tuple[Demonstration, ...]) -> pd.DataFrame:
    """Return one row a controller: column `controller`, a column a check, `caught as it should be` (icon and word)."""
    rows = [
        {"controller": d.controller}
        | {title: "✓ passed" if getattr(d.audit, name) else "✕ failed" for name, title in CHECKS.items()}
        | {"as it should be": "✓ yes" if d.as_expected else "✕ NO"}
        for d in shown
    ]
    return pd.DataFrame(rows, columns=["controller", *CHECKS.values(), "as it should be"])
