"""Studies: what a seed published, computed again from what was measured, as pages and text."""
