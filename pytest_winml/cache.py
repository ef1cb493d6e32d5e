"""`pytest-winml cache`: what the store of build results holds, what may go, and whether it is sound."""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.errors import UsageProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_winml.records.store import GcReport, StoreListing, VerifyReport
    from pytest_winml.store.artifacts import ArtifactStore

_OK, _DAMAGED = 0, 1
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_EXAMPLES = """examples:
  pytest-winml cache ls
  pytest-winml cache gc --older-than 30d --max-size 20GB --dry-run
  pytest-winml cache verify --store results --json

exit status: 0 fine, 1 when verify finds a damaged entry, 4 for a mistake in the command."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    cache = commands.add_parser(
        "cache",
        help="list, thin out or check the store of build results",
        description="The store of build results: every stage of every model that was built on this machine.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = cache.add_subparsers(dest="action", required=True)
    listed = actions.add_parser(
        "ls", help="what is in it: size, age, stage, model, and which entry was made from which"
    )
    collected = actions.add_parser("gc", help="remove what was not used for long, and what dead processes left")
    collected.add_argument("--older-than", metavar="AGE", help="remove what was not used for so long: 30d, 12h, 2w")
    collected.add_argument(
        "--max-size", metavar="SIZE", help="remove the least recently used until the rest fits: 20GB"
    )
    collected.add_argument("--dry-run", action="store_true", help="say what would be removed, and remove nothing")
    verified = actions.add_parser("verify", help="read every byte and name the entries that are damaged")
    for action in (listed, collected, verified):
        action.add_argument("--store", metavar="DIR", help="the store; without it the one in this user's cache folder")
        action.add_argument("--json", action="store_true", help="the answer as JSON, for scripts")


def run(chosen: argparse.Namespace) -> int:
    store = _store(chosen.store)
    match chosen.action:
        case "ls":
            return _show(chosen, store.listing())
        case "gc":
            return _show(chosen, _collect(store, chosen))
        case _:
            report = store.verify()
            _show(chosen, report)
            return _OK if report.sound else _DAMAGED


def _store(folder: str | None) -> ArtifactStore:
    from pytest_winml.store.artifacts import ArtifactStore, default_root

    if folder is None:
        return ArtifactStore(default_root())
    root = Path(folder).absolute()
    if not root.is_dir():
        raise UsageProblem(f"--store {folder}: there is no such folder", remedy="name the folder of a store.")
    return ArtifactStore(root)


def _collect(store: ArtifactStore, chosen: argparse.Namespace) -> GcReport:
    return store.gc(
        older_than_s=_amount("--older-than", chosen.older_than, _SECONDS, "30d"),
        max_bytes=_whole(_amount("--max-size", chosen.max_size, _BYTES, "20GB")),
        dry_run=chosen.dry_run,
    )


def _amount(option: str, text: str | None, steps: Mapping[str, int], example: str) -> float | None:
    if text is None:
        return None
    match = _AMOUNT.fullmatch(text.strip().lower())
    if match is None or match[2] not in steps:
        names = ", ".join(name.upper() if steps is _BYTES else name for name in steps)
        raise UsageProblem(
            f"{option} {text}: expected a number and one of {names}", remedy=f"write {option} {example}."
        )
    return float(match[1]) * steps[match[2]]


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _show(chosen: argparse.Namespace, answer: StoreListing | GcReport | VerifyReport) -> int:
    import msgspec

    from pytest_winml.records.store import GcReport, StoreListing
    from pytest_winml.report.cache import gc_lines, listing_lines, verify_lines

    width = shutil.get_terminal_size((100, 24)).columns
    if chosen.json:
        print(msgspec.json.format(msgspec.json.encode(answer), indent=1).decode())
    elif isinstance(answer, StoreListing):
        print("\n".join(listing_lines(answer, width)))
    elif isinstance(answer, GcReport):
        print("\n".join(gc_lines(answer, width)))
    else:
        print("\n".join(verify_lines(answer, width)))
    return _OK
