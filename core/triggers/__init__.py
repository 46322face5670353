"""JUDGE: triggers read a condition and an event and answer with a score; they store nothing and change nothing."""
