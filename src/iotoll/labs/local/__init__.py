"""A whole LAVA lab on one machine: server, worker, database, file server and boards.

Debian's own packages run in a root file system of their own, in namespaces of their own, without
systemd or Docker. `root` makes that file system once, `inside` is the first process of a running
lab, `services` says what it starts, `local` brings it up and down from outside.
"""
