"""Explain: which functions account for a difference, from records of what boards executed."""
