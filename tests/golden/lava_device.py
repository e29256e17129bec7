"""Run by test_devices.py: renders device dictionaries with LAVA's own templates and checks them.

    lava_device.py LAVA-ROOT NAME… <FOLDERS

LAVA's modules come from LAVA-ROOT, a root file system that has its Debian packages. Standard input
names the folders with our devices and device types, a line each. Prints one JSON object: name →
device, as LAVA's dispatcher would get it. What LAVA refuses is an exception.
"""

import json
import sys
from pathlib import Path

root = Path(sys.argv[1])
sys.path.append(str(root / "usr/lib/python3/dist-packages"))

import jinja2  # noqa: E402
from lava_common.jinja import create_device_templates_env  # noqa: E402
from lava_common.schemas.device import validate  # noqa: E402
from lava_common.yaml import yaml_safe_load  # noqa: E402

folders = [*sys.stdin.read().splitlines(), str(root / "usr/share/lava-server/device-types")]
env = create_device_templates_env(jinja2.FileSystemLoader(folders))
found = {}
for name in sys.argv[2:]:
    kind = {"scheduled_device_name": name, "scheduled_device_type": "any"}
    device = yaml_safe_load(env.get_template(f"{name}.jinja2").render(**kind))
    validate(device)
    found[name] = device
json.dump(found, sys.stdout)
