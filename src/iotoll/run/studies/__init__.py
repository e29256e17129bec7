"""Experiments over many runs: how often the gate errs, and what it finds."""
