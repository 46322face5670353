"""KEEP: the operational store and its ledger. Nothing else writes them; no model is ever imported here."""
