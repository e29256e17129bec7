"""One boot: the job that the board runs, the board on this machine, and the order of boots."""
