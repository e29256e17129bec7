"""Boards that are reached by ssh, without a LAVA: a developer's own."""
