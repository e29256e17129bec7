"""May a boot's times be used? Rules as data (``pipelines/validity.toml``) over a board's own facts.

A rule is a function of facts alone: it is never shown a measured value, so it cannot prefer one
result to another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache

from pydantic import ValidationError, model_validator

from iotoll.core.paths import data_dir
from iotoll.core.toml import first_error, load_toml
from iotoll.records.models.base import Model
from iotoll.records.models.run import FactRecord


class ValidityRule(Model):
    """One rule; ``fact`` is a glob pattern."""

    name: str
    fact: str
    equals: str | None = None
    at_most: float | None = None
    unchanged: bool = False
    grows_at_most: float | None = None
    built: bool = False
    same_in_pair: bool = False

    @model_validator(mode="after")
    def _one_check(self) -> ValidityRule:
        checks = (self.equals, self.at_most, self.grows_at_most)
        flags = self.unchanged + self.built + self.same_in_pair
        if sum(check is not None for check in checks) + flags != 1:
            raise ValueError(f"rule {self.name}: exactly one check")
        return self


class _File(Model):
    rule: list[ValidityRule]


@cache
def load_rules() -> tuple[ValidityRule, ...]:
    """The rules; raises UsageError when their file is not valid."""
    path = data_dir("pipelines") / "validity.toml"
    try:
        return tuple(_File.model_validate(load_toml(path)).rule)
    except ValidationError as error:
        raise first_error(path, error) from error


def broken_rule(facts: FactRecord, config_sha256: str, rules: Sequence[ValidityRule]) -> str | None:
    """The first rule that a boot breaks, in words; None when its times may be used.

    ``config_sha256`` is the digest of the .config that its kernel was built with.
    """
    for rule in rules:
        for name, before, after in _matching(facts, rule):
            try:
                why = _broken(rule, before, after, config_sha256)
            except ValueError:
                why = f"is {before}, which is not a number"
            if why:
                return f"{rule.name}: {name} {why}"
    return None


def mismatch(base: FactRecord, candidate: FactRecord, rules: Sequence[ValidityRule]) -> str:
    """Why the boots of a pair cannot be compared; empty when they can."""
    for rule in (rule for rule in rules if rule.same_in_pair):
        other = {name: value for name, value, _ in _matching(candidate, rule)}
        for name, value, _ in _matching(base, rule):
            if name in other and other[name] != value:
                return f"{rule.name}: {name} {value} and {other[name]}"
    return ""


def _matching(facts: FactRecord, rule: ValidityRule) -> Iterator[tuple[str, str, str | None]]:
    for name, before in facts.before.items():
        if fnmatchcase(name, rule.fact):
            yield name, before, facts.after.get(name)


def _broken(rule: ValidityRule, before: str, after: str | None, config_sha256: str) -> str:
    values = [before] if after is None else [before, after]
    if rule.equals is not None:
        return next((f"is {v}, not {rule.equals}" for v in values if v != rule.equals), "")
    if rule.built and before != config_sha256:
        return f"is {before[:12]}, not {config_sha256[:12]}"
    if rule.at_most is not None:
        most = rule.at_most
        return next((f"is {v}, at most {most:g}" for v in values if _number(v) > most), "")
    if after is not None and rule.unchanged and after != before:
        return f"was {before}, then {after}"
    if after is not None and rule.grows_at_most is not None:
        grown = _number(after) - _number(before)
        return f"grew by {grown:g}" if grown > rule.grows_at_most else ""
    return ""


def _number(text: str) -> float:
    """A number as sysfs writes it; of several (joined by commas) the largest."""
    return max(float(int(t, 16)) if t.startswith("0x") else float(t) for t in text.split(","))
