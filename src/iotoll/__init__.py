"""iotoll: gates Linux storage-driver patches on software overhead per I/O."""
