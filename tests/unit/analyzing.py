"""Runs `iotoll analyze` in the process of a test."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from iotoll.cli import cli
from iotoll.core.errors import UsageError


def run(*words: object) -> Result:
    """What the command printed; errors are raised."""
    return CliRunner().invoke(cli, ["analyze", *map(str, words)], catch_exceptions=False)


def refused(*words: object) -> str:
    """The one line of a usage error."""
    with pytest.raises(UsageError) as caught:
        run(*words)
    text = str(caught.value)
    assert "\n" not in text
    return text
