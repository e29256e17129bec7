"""A run: its manifest, its folder, its kernels; what gate, explain, bisect and others share."""
