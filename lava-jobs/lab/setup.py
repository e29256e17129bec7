"""Runs in the lab as user lavaserver: adds users, tokens, workers and devices by LAVA's commands.

Reads what to add as JSON from standard input, and prints ``{worker: token}`` as JSON. One process
for all, since starting Django takes longer than the work.
"""

import json
import os
import sys

import django
from django.core.management import call_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lava_server.settings.prod")
django.setup()

from lava_scheduler_app.models import DeviceType, Worker  # noqa: E402 (needs Django's set-up)


def manage(*words):
    """Call one of LAVA's commands, whose own messages go to standard error."""
    call_command(*words, stdout=sys.stderr)


def main():
    """Add everything that standard input names."""
    wanted = json.load(sys.stdin)
    for user in wanted["users"]:
        kind = ["--staff", "--superuser"] if user["admin"] else []
        manage("users", "add", user["name"], "--passwd", user["password"], *kind)
        manage("tokens", "add", "--user", user["name"], "--secret", user["token"])
        if user["group"]:
            manage("groups", "add", user["group"], "--username", user["name"], "--submitting")
    for worker in wanted["workers"]:
        manage("workers", "add", worker)
    for device in wanted["devices"]:
        if not DeviceType.objects.filter(name=device["type"]).exists():
            manage("device-types", "add", device["type"])
        words = ["--device-type", device["type"], "--worker", device["worker"]]
        tags = ["--tags", *device["tags"]] if device["tags"] else []
        manage("devices", "add", device["name"], *words, *tags)
        manage("devices", "update", "--health", "GOOD", device["name"])
    tokens = {worker.hostname: worker.token for worker in Worker.objects.all()}
    json.dump({name: tokens[name] for name in wanted["workers"]}, sys.stdout)


main()
