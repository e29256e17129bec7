"""Both sides of a cell as two profiles of https://www.speedscope.app (its file format)."""

from __future__ import annotations

from typing import Any

from iotoll.measure.explain.frames import Frame

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(root: Frame) -> dict[str, Any]:
    """The file's content: weights are instructions per I/O; one sample for each call path."""
    frames: dict[str, int] = {}
    sides: list[tuple[list[list[int]], list[float]]] = [([], []), ([], [])]
    _collect(root, [], frames, sides)
    return {
        "$schema": SCHEMA,
        "name": root.name,
        "exporter": "iotoll",
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": [
            {
                "type": "sampled",
                "name": side,
                "unit": "none",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
            for side, (samples, weights) in zip(("base", "candidate"), sides, strict=True)
        ],
    }


def _collect(
    frame: Frame,
    above: list[int],
    frames: dict[str, int],
    sides: list[tuple[list[list[int]], list[float]]],
) -> None:
    path = [*above, frames.setdefault(frame.name, len(frames))]
    for own, (samples, weights) in zip(frame.own, sides, strict=True):
        if own:
            samples.append(path)
            weights.append(own)
    for child in frame.children.values():
        _collect(child, path, frames, sides)
