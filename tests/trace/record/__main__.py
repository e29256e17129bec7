"""Record small traces of a Debian kernel's storage drivers in a QEMU guest.

    python -m tests.trace.record --deb KERNEL.deb [--deb MORE.deb] --arch arm64 \
        --out DIR RECIPE...

For each recipe (recipes.toml) one guest boots, and each of its cases leaves in DIR a thinned trace
KERNEL-ARCH-RECIPE-CASE.dat (trace.dat 7, zstd), fio's result NAME.fio.json where fio made the load,
and NAME.json: what was recorded, with which command, how many of each event, which were absent.
Needs QEMU, nbdkit, mmdebstrap, cpio, kmod, trace-cmd (apt-get install), and iotoll's native module.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iotoll import _native
from iotoll.core.digest import json_sha256
from iotoll.core.paths import cache_dir
from tests.trace.record import guest
from tests.trace.record.kernel import Kernel, unpack
from tests.trace.thin import convert, thin_file

HERE = Path(__file__).parent
KEPT_FIO = ("total_ios", "io_bytes", "short_ios", "slat_ns", "clat_ns", "lat_ns")


def load_recipe(name: str) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The recipe with its device's and the default entries, and the event sets."""
    data = tomllib.loads((HERE / "recipes.toml").read_text())
    if name not in data["recipe"]:
        raise SystemExit(f"no recipe {name}: there are {', '.join(data['recipe'])}")
    recipe = {**data["recipe"]["defaults"], **data["recipe"][name]}
    recipe = {**data["device"][recipe["device"]], **recipe}
    recipe["modules"] = [*data["common"]["modules"], *recipe["modules"]]
    return recipe, data["events"]


def thin_fio(path: Path) -> dict[str, Any]:
    """What a reconciliation needs of fio's JSON: options, counts and latencies."""
    result = json.loads(re.sub(r"\A[^{]*", "", path.read_text()))
    jobs = []
    for job in result["jobs"]:
        kept: dict[str, Any] = {"jobname": job["jobname"], "error": job["error"]}
        for direction in ("read", "write", "trim", "sync"):
            part = job[direction]
            if part.get("total_ios"):
                kept[direction] = {key: part[key] for key in KEPT_FIO if key in part}
        jobs.append(kept)
    options = {**result.get("global options", {}), **result["jobs"][0]["job options"]}
    return {"fio version": result["fio version"], "options": options, "jobs": jobs}


def keep(case: Path, name: str, facts: Mapping[str, Any], out: Path) -> None:
    """Thin one case's trace into ``out`` and write down what it is."""
    target = out / f"{name}.dat"
    if case.with_suffix(".whole").exists():
        # Of several instances all are kept, packed as trace-cmd does it.
        convert(case, target, "--compression", "zstd", "--file-version", "7")
    else:
        thin_file(case, target)
    fio = case.with_name(f"{case.stem}.fio.json")
    if fio.is_file():
        text = json.dumps(thin_fio(fio), indent=1)
        (out / f"{name}.fio.json").write_text(text + "\n")
    info = json.loads(_native.trace_info(str(target)))
    record = {
        **facts,
        "command": case.with_suffix(".command").read_text().strip(),
        "absent_events": case.with_suffix(".absent").read_text().split(),
        "events": info["events"],
    }
    (out / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"{name}: {target.stat().st_size >> 10} KiB", flush=True)


def record(kernel: Kernel, arch: str, name: str, out: Path, cases: list[str]) -> None:
    """Boot one recipe and keep all its cases."""
    recipe, events = load_recipe(name)
    recipe["cases"] = [c for c in recipe["cases"] if not cases or c in cases]
    left = Path(tempfile.mkdtemp(prefix="record-"))
    guest.run(kernel, arch, recipe, events, left)
    for line in (left / "console").read_text(errors="replace").splitlines():
        if "record: " in line and "record: case" not in line:
            print(line)
    short = ".".join(kernel.release.split(".")[:2])
    facts = {
        "kernel": (left / "uname").read_text().strip(),
        "arch": arch,
        "device": recipe["device"],
        "cpus": recipe["cpus"],
        "clock": recipe["clock"],
        "cmdline": recipe["cmdline"],
        "recipe": name,
    }
    for case in sorted(left.glob("*.dat")):
        keep(case, f"{short}-{arch}-{name}-{case.stem}", {**facts, "case": case.stem}, out)
    if (left / "blktrace").is_dir():
        shutil.copytree(left / "blktrace", out / f"{short}-{arch}-{name}.blktrace")
    shutil.rmtree(left)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--deb", type=Path, action="append", required=True)
    parser.add_argument("--arch", choices=list(guest.MACHINES), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--case", action="append", default=[], help="only these cases")
    parser.add_argument("recipes", nargs="+")
    args = parser.parse_args()
    kernel = unpack(args.deb, cache_dir() / "record" / json_sha256([d.name for d in args.deb]))
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.recipes:
        record(kernel, args.arch, name, args.out, args.case)


if __name__ == "__main__":
    main()
