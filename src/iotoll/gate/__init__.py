"""The gate: patch in, verdict out; also measure, reproduce and a gate's boots in a lab."""
