"""From records to a verdict, on either clock. Pure functions of result files."""
