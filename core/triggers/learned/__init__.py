"""Triggers whose numbers were fitted to examples; on an obligation they only suggest."""
