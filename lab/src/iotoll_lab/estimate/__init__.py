"""An estimate of the time that a real core would take for what a boot executed."""
