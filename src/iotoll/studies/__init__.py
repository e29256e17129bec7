"""Published studies, measured again: their numbers beside ours."""
