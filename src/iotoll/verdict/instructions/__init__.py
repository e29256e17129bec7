"""The rule of the clock `instructions`: pairing of I/Os, the rule, pooled cells."""
