"""Experiments behind docs/validation.md: on boards, and on the gate itself."""
