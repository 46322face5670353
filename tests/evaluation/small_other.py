"""A worker whose backbone has the same name and hash as the small one and answers otherwise."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from core.config import Config
from core.evaluation.child import serve
from core.evaluation.shard import Tools, Worker
from tests.evaluation.small import OverlapTrigger, SmallBackbone


class OtherBackbone(SmallBackbone):
    """Answers otherwise."""

    salt = "other"


def tools(config: Config) -> Tools:
    return Tools(OtherBackbone(), OverlapTrigger(), 0.3)


if __name__ == "__main__":
    serve(Worker(tools))
