"""The frozen language model: found, converted once, loaded, hashed, asked greedily, and its answers cached.

Start with `load.load`. Nothing here trains, and nothing here is imported by the deterministic lane.
"""
