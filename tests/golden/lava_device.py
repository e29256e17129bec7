"""Run by test_devices.py: renders device dictionaries with LAVA's own templates and checks them.

    lava_device.py LAVA-ROOT DEVICES DEVICE-TYPES NAME…

LAVA's modules come from LAVA-ROOT, a root file system that has its Debian packages. Prints one JSON
object: name → device, as LAVA's dispatcher would get it. What LAVA refuses is an exception.
"""

import json
import sys
from pathlib import Path

root, devices, types = (Path(word) for word in sys.argv[1:4])
sys.path.append(str(root / "usr/lib/python3/dist-packages"))

import jinja2  # noqa: E402
from lava_common.jinja import create_device_templates_env  # noqa: E402
from lava_common.schemas.device import validate  # noqa: E402
from lava_common.yaml import yaml_safe_load  # noqa: E402

folders = [devices, types, root / "usr/share/lava-server/device-types"]
env = create_device_templates_env(jinja2.FileSystemLoader([str(f) for f in folders]))
found = {}
for name in sys.argv[4:]:
    kind = {"scheduled_device_name": name, "scheduled_device_type": "any"}
    device = yaml_safe_load(env.get_template(f"{name}.jinja2").render(**kind))
    validate(device)
    found[name] = device
json.dump(found, sys.stdout)
