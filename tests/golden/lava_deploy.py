"""Run by test_uboot.py: LAVA's own worker reads a job and a device, and makes what U-Boot loads.

    lava_deploy.py LAVA-ROOT FOLDER OUT <JOBS

LAVA's modules come from LAVA-ROOT, a root file system that has its Debian packages. Standard input
is a JSON object: name → {"job": definition, "device": as lava_device.py prints it}. The job is
checked as LAVA's worker checks it, then its deploy action is run in FOLDER: files are downloaded
and compared with their SHA-256, and LAVA's overlay goes into the ramdisk. Writes a JSON object to
OUT: name → {"commands": what is typed into U-Boot, "files": paths of kernel, dtb and ramdisk as
TFTP has them}. What LAVA refuses is an exception.
"""

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

root, folder = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.append(str(root / "usr/lib/python3/dist-packages"))

import lava_dispatcher.utils.filesystem as worker  # noqa: E402
from lava_common.log import YAMLLogger  # noqa: E402
from lava_dispatcher.device import DeviceDict  # noqa: E402
from lava_dispatcher.parser import JobParser  # noqa: E402

LIMIT = 120  # seconds
# A worker's own settings: its address, and where it works. The folder of its TFTP server it reads
# from /etc/default/tftpd-hpa, which this machine may not have.
WORKER = f"dispatcher_ip: 192.0.2.1\ndispatcher_download_dir: {folder / 'work'}\n"
tftp = folder / "tftp"
tftp.mkdir()
worker.tftpd_dir = lambda: str(tftp)
OVERLAY = "bootloader-overlay"


def actions(pipeline: Any) -> Any:
    for action in pipeline.actions:
        yield action
        if action.pipeline:
            yield from actions(action.pipeline)


def deploy(name: str, definition: str, device: dict[str, Any]) -> dict[str, Any]:
    job = JobParser().parse(definition, DeviceDict(device), name, WORKER, logger=YAMLLogger())
    job.pipeline.validate_actions()
    known = {action.name: action for action in actions(job.pipeline)}
    end = time.monotonic() + LIMIT
    known["tftp-deploy"].run(None, end)
    known[OVERLAY].run(None, end)
    data = known[OVERLAY].get_namespace_data
    commands = data(action=OVERLAY, label="u-boot", key="commands")
    found = {
        kind: data(action="download-action", label="file", key=kind) for kind in ("kernel", "dtb")
    }
    found["ramdisk"] = data(action="compress-ramdisk", label="file", key="ramdisk")
    return {
        # The folder's name is another one each time.
        "commands": [re.sub(r"/tftp-deploy-\w+/", "/tftp-deploy/", line) for line in commands],
        "files": {kind: str(tftp / path) for kind, path in found.items()},
    }


jobs = json.load(sys.stdin)
made = {name: deploy(name, one["job"], one["device"]) for name, one in jobs.items()}
Path(sys.argv[3]).write_text(json.dumps(made))
