"""LAVA jobs: rendered, submitted once, waited for and collected; LAVA schedules them."""
