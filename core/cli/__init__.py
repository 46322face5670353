"""The same doors from a shell, one command group a file. `main(argv)` returns the exit code."""

from __future__ import annotations

from core.cli.base import Result, main

__all__ = ["Result", "main"]
