"""Where kernel people are: checks for b4, and a gate for the series of a mailing list."""
