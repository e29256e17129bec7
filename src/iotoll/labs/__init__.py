"""Boards that are not this machine's: LAVA, a LAVA on this machine, simulated boards."""
