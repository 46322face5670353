"""Live verdicts: asks the models, writes nothing.

Promise: a missing package or a damaged model is one sentence that says how to get it; the page around it stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from core.backbone.load import load
from core.controller.mutants import Demonstration, demonstrate

if TYPE_CHECKING:
    from core.backbone.base import Backbone
    from core.config import Config
    from core.records.trace import Trace

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
