"""A simulated board, for labs and tests that have no real one.

What a lab touches is real: a UART over TCP, a power relay, the fastboot protocol, a partition
table, an Android boot image. QEMU is the SoC and boots what was flashed. docs/boards.md says what
is not simulated.

`board` ties the parts together; `firmware` speaks fastboot, `flash` holds the disks, `uart` is the
serial line, `soc` is QEMU, `client` is what a lab calls, `device` its LAVA device dictionary.
"""
