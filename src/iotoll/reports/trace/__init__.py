"""What a user gets out of a trace: terminal table, JSON, Parquet, Perfetto, figures, slowest I/Os.

`command.py` is ``iotoll analyze``; `cells.py` reads traces and applies `filters.py`; every other
module turns the cells into one kind of output. docs/outputs.md shows them.
"""
