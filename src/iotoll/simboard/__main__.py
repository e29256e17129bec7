"""``python3 -m iotoll.simboard``."""

from iotoll.simboard.command import standalone

standalone()
