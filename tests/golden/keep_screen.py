"""Keeps what a gate's first screen is made of: ``python -m tests.golden.keep_screen RUN NAME``.

As `tests.golden.keep_run`, with what was explained, and as one archive: a run has many cells. Of a
patch that others wrote (``list-*``) the text is left out; its title, paths and lines stay.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.golden.keep_run import KEPT, keep

FOLDER = Path(__file__).parent / "data" / "screens"


def archive(run: Path, name: str) -> Path:
    """Write ``data/screens/NAME.tar.gz``; returns it. The same run gives the same bytes."""
    target = FOLDER / f"{name}.tar.gz"
    target.parent.mkdir(parents=True, exist_ok=True)
    stream = io.BytesIO()
    with tempfile.TemporaryDirectory() as place, tarfile.open(fileobj=stream, mode="w") as tar:
        others = name.startswith("list-")
        kept = [one for one in KEPT if not (others and one.endswith((".diff", ".patch")))]
        folder = keep(run, name, Path(place), (*kept, "explain.json"))
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                text = path.read_text()
                if path.name == "result.json":
                    text = json.dumps(_least(json.loads(text)), sort_keys=True)
                if path.name == "run.json" and others:
                    asked = json.loads(text)
                    asked["candidate"] = Path(asked["candidate"]).name
                    text = json.dumps(asked, sort_keys=True)
                info = tarfile.TarInfo(str(path.relative_to(folder)))
                info.size = len(text.encode())
                tar.addfile(info, io.BytesIO(text.encode()))
    target.write_bytes(gzip.compress(stream.getvalue(), 9, mtime=0))
    return target


def _least(result: dict[str, Any]) -> dict[str, Any]:
    """The records of the first boot alone; the others have nothing that a first screen shows."""
    result["cells"] = {cell: records[:1] for cell, records in result["cells"].items()}
    for records in result["cells"].values():
        for record in records:
            record |= {"in_order": None, "slowest": [], "steps": [], "fio": {}, "work": None}
            record.pop("fio_check", None)
            # Whether elements were counted is on the screen; what moved is in the verdict.
            if record.get("vector") is not None:
                record["vector"] = {}
    for boot in result["boots"]:
        boot["command"], boot["digests"] = [], {}
        boot["facts"]["limits"] = {}
    return result


if __name__ == "__main__":
    print(archive(Path(sys.argv[1]), sys.argv[2]))
