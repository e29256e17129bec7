"""Everything that a run directory holds, as typed records."""
