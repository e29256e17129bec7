"""What every page of iotoll is made of: one frame, one set of parts, one way to draw."""
