"""From traces to records: I/Os cut into latency sections, corrected, calibrated, checked."""
