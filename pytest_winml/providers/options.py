"""Provider options an EP is known to understand.

EPs accept options they never heard of and echo them back, so a typo would silently measure something else. The lists
in `known_options/` are ours, taken from each EP's documentation and binaries; `since` is the version of the EP's own
distribution that brought an option, `values` the words it takes.
"""

from __future__ import annotations

import re
from importlib import resources

import msgspec

from pytest_winml.errors import UsageProblem, unknown_name
from pytest_winml.records.base import Record


class KnownOption(Record, frozen=True, kw_only=True):
    values: tuple[str, ...] = ()
    whole_number: bool = False
    since: str | None = None
    owner: str | None = None


class KnownOptions(Record, frozen=True, kw_only=True):
    ep: str
    source: str
    options: dict[str, KnownOption]


def known_options(ep: str) -> KnownOptions:
    text = resources.files(__package__).joinpath("known_options", f"{ep}.json").read_bytes()
    return msgspec.json.decode(text, type=KnownOptions)


def check_options(ep: str, version: str | None, options: dict[str, str]) -> None:
    """Raises a UsageProblem that names the EP and the option. `version` is None where the EP's is not comparable."""
    if not options:
        return
    known = known_options(ep).options
    for name, value in options.items():
        if name not in known:
            problem = unknown_name(f"option of {ep}", name, known)
            remedy = f"{problem.remedy} Target(..., unchecked_options=) passes it as it is, and the report says so."
            raise UsageProblem(problem.message, remedy=remedy)
        _check_value(ep, name, value, known[name], version)


def _check_value(ep: str, name: str, value: str, option: KnownOption, version: str | None) -> None:
    if option.owner:
        raise UsageProblem(f"option {name!r} of {ep} belongs to {option.owner}: it cannot be set by hand")
    if option.values and value not in option.values:
        raise UsageProblem(
            f"option {name!r} of {ep} does not take {value!r}", remedy=f"use {', '.join(option.values)}."
        )
    if option.whole_number and not re.fullmatch(r"-?[0-9]+", value):
        raise UsageProblem(f"option {name!r} of {ep} takes a whole number, not {value!r}")
    if option.since and version and _release(version) < _release(option.since):
        raise UsageProblem(f"option {name!r} needs {ep} {option.since}; {version} is installed and would ignore it")


def _release(version: str) -> tuple[int, ...]:
    """The first three numbers, so that `2.7` and `2.7.0` are the same."""
    major, minor, patch = ([int(part) for part in re.findall(r"\d+", version)] + [0, 0, 0])[:3]
    return major, minor, patch
