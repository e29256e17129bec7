"""iotoll: gates Linux storage-driver patches on software overhead per I/O."""

__version__ = "0.2.0"
