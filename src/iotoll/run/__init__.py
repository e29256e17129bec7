"""One run from a patch to its report, and the commands and studies made of runs."""
