"""The nouns: frozen pydantic models, no I/O. Everything else speaks in these."""
