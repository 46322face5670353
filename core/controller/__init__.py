"""ACT: from records and events to one audited trace. Start reading at `step.py`."""
