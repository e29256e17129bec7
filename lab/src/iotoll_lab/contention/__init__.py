"""Contention between CPUs: a model of coherent caches over what each CPU of a board accesses."""
