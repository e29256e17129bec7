"""``python -m iotoll``."""

from iotoll.cli import main

main()
