"""Duebook: an audit console, and the small runtime under it, for the prospective memory of language-model agents.

Reading order is one direction: roots, records, triggers and backbone, controller, ledger and traces, evaluation,
views, acts, figures, then the shell (`core.cli`) and the pages. `pyproject.toml` holds the import contracts.
"""
