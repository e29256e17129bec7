"""Writes traces of kernels that cannot be booted here, with the truth of every I/O.

Independent of the Rust crates: an error in how those read a format or cut an I/O cannot be repeated
here by construction. ``container`` writes trace.dat 6, ``formats`` knows the events of Linux 4.4 to
5.4, ``machine`` records what a simulated machine does, ``drivers`` does what a driver of such a
kernel does, and ``scenarios`` has the I/Os.
"""
