"""Records small traces of Debian kernels in QEMU guests; see `__main__`."""
