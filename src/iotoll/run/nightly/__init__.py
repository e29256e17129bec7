"""The nightly run: tips of branches on boards, into the history (docs/nightly.md)."""
