"""The history of all runs as Parquet files: `tables` (what a row is), `store`, `query`.

Needs the extra ``iotoll[history]``; nothing that a gate does imports it.
"""
