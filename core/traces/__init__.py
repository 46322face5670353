"""Append-only Parquet of execution traces: one mapping, one writer, one compaction."""
