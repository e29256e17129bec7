"""Nightly: branches measured each night, their history, and what changed in it."""
