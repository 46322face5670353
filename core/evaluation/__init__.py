"""MEASURE: episodes, runs, metrics, contracts, claims; pure where it counts, files where it must."""
