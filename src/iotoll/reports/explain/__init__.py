"""What `iotoll explain` found, for a terminal and for programs that draw profiles."""
