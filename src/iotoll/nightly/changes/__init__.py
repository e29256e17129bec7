"""What changed from night to night: `detector` (where), `find` (one change per cause), `drift`."""
