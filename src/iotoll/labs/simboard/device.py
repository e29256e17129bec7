"""A simulated board as a LAVA device."""

from __future__ import annotations

import jinja2

from iotoll.core.paths import data_dir


def simulated_device(name: str, serial: str) -> str:
    """The device dictionary of the simulated HiKey960 ``name``, for LAVA's own hi960-hikey type."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("lava-jobs") / "devices"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Jinja2 for LAVA, not markup
    )
    return environment.get_template("simulated-hikey960.jinja2.j2").render(name=name, serial=serial)
