"""`triggers`: what is installed, with threshold, device and weights; what is missing, and how to get it."""

from __future__ import annotations

import argparse

from core.cli.base import Result, Subparsers
from core.config import Config
from core.triggers import registry


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    subparsers.add_parser("triggers", help="the triggers that are installed", description=__doc__)


def run(args: argparse.Namespace, config: Config) -> Result:
    """List the triggers."""
    found = registry.installed()
    return Result(found, "\n".join(_row(info) for info in found))


def _row(info: registry.TriggerInfo) -> str:
    if not info.available:
        return f"{info.name}: not available. {info.why_not}"
    weights = f", weights {info.weights_sha256[:12]}" if info.weights_sha256 else ""
    return f"{info.name}: threshold {info.threshold:g}, on {info.device}{weights}"
