"""How many boards and runners a number of merge requests needs: a simulated LAVA scheduler."""
