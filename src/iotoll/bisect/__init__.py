"""Bisect and ledger: which commits of a range changed the instructions of an I/O."""
