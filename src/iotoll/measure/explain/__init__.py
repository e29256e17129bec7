"""Explain: which functions account for a difference, from records of what two boards executed."""
