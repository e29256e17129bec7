"""A whole LAVA on this machine: server, worker, file server, boards."""
