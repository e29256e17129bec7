"""The change under test: where it comes from, what it touches, which cells it selects."""
