"""The questions pages ask: SQL view files over listed Parquet segments and over tables copied from the store."""
