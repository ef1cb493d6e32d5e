from __future__ import annotations

from typing import Any

import pytest

from pytest_winml.records.store import Damage, EntrySummary, GcReport, GcStep, StoreListing, VerifyReport
from pytest_winml.report.cache import damage_sentence, gc_lines, listing_lines, verify_lines

ROOT = "cache/store"
HOUR, DAY = 3_600, 86_400


def key(letter: str) -> str:
    return letter * 64


def summary(letter: str, stage: str, *, made_from: str = "", used_by: str = "", **changes: Any) -> EntrySummary:
    fields: dict[str, Any] = {
        "model": "resnet18", "size_bytes": 46_800_000, "created_at": "2026-01-01T00:00:00+00:00",
        "unused_s": 3.2 * DAY, "elapsed_s": 12.0, **changes,
    }  # fmt: skip
    return EntrySummary(
        key=key(letter), stage=stage, inputs=tuple(map(key, made_from)), used_by=tuple(map(key, used_by)), **fields
    )


DAMAGE = Damage(key=key("e"), folder=f"{ROOT}/entries/ee/e", kind="damaged", problem="model.onnx is missing")
NEWER = Damage(key=key("f"), folder=f"{ROOT}/entries/ff/f", kind="newer", problem="it has schema 2")


def test_a_listing_shows_what_was_made_from_what() -> None:
    listing = StoreListing(
        root=ROOT,
        entries=(
            summary("d", "quantize", made_from="b", size_bytes=12_000_000, elapsed_s=125.0, unused_s=10.0),
            summary("c", "optimize", made_from="a", unused_s=5 * HOUR),
            summary("a", "export", used_by="bc", in_use=True),
            summary("b", "optimize", made_from="a", used_by="d", unused_s=70.0),
            summary("9", "export", model="bert", size_bytes=900),
        ),
    )
    assert listing_lines(listing, 110) == [
        "entry         stage         model     size     took        last used     used by",
        "------------  ------------  --------  -------  ----------  ------------  ---------",
        "999999999999  export        bert      900 B    12 s        3 days ago    -",
        "aaaaaaaaaaaa  export        resnet18  46.8 MB  12 s        in use        2 entries",
        "bbbbbbbbbbbb    optimize    resnet18  46.8 MB  12 s        1 minute ago  1 entry",
        "dddddddddddd      quantize  resnet18  12.0 MB  2 min 05 s  just now      -",
        "cccccccccccc    optimize    resnet18  46.8 MB  12 s        5 hours ago   -",
        "",
        "5 entries, 152.4 MB in cache/store",
    ]


def test_an_entry_whose_input_is_gone_stands_for_itself() -> None:
    lines = listing_lines(StoreListing(root=ROOT, entries=(summary("d", "compile", made_from="b"),)), 100)
    assert lines[2].startswith("dddddddddddd  compile ")


def test_no_entry_is_lost_or_shown_twice_whatever_the_chains() -> None:
    """A circle can only be made by hand; two inputs are ordinary."""
    circle = (summary("a", "x", made_from="b", used_by="b"), summary("b", "y", made_from="a", used_by="a"))
    diamond = (
        summary("1", "x", used_by="23"),
        summary("2", "y", made_from="1", used_by="4"),
        summary("3", "y", made_from="1", used_by="4"),
        summary("4", "z", made_from="23"),
    )
    for entries in (circle, diamond):
        shown = [line[:12] for line in listing_lines(StoreListing(root=ROOT, entries=entries), 100)[2:-2]]
        assert sorted(shown) == sorted(entry.key[:12] for entry in entries)


def test_an_empty_store_says_so() -> None:
    assert listing_lines(StoreListing(root=ROOT, entries=()), 100) == ["cache/store holds nothing."]


def test_a_listing_names_what_cannot_be_used_and_what_is_unfinished() -> None:
    listing = StoreListing(root=ROOT, entries=(), unusable=(DAMAGE, NEWER), leftover_bytes=5_000_000)
    assert listing_lines(listing, 120) == [
        "DAMAGED eeeeeeeeeeee: model.onnx is missing",
        "  cache/store/entries/ee/e",
        "NEWER ffffffffffff: it has schema 2",
        "  cache/store/entries/ff/f",
        "0 entries, 0 B in cache/store",
        "5.0 MB in unfinished builds; `pytest-winml cache gc` removes those whose process is gone.",
    ]


STEP = GcStep(key=key("a"), stage="export", model="resnet18", size_bytes=46_800_000, reason="least recently used")
BROKEN = GcStep(key=key("b"), size_bytes=10, reason="damaged: it has no entry.json")
SPARED = GcStep(key=key("c"), stage="compile", model="bert", size_bytes=7_000, reason="it is being built")


def test_a_collection_tells_what_went_what_had_to_stay_and_how_much_is_left() -> None:
    report = GcReport(
        root=ROOT, dry_run=False, removed=(STEP, BROKEN), spared=(SPARED,), leftovers=1, leftover_bytes=200_000_000,
        kept=3, kept_bytes=1_500,
    )  # fmt: skip
    assert gc_lines(report, 110) == [
        "removed       stage    model     size     why",
        "------------  -------  --------  -------  -----------------------------",
        "aaaaaaaaaaaa  export   resnet18  46.8 MB  least recently used",
        "bbbbbbbbbbbb  unknown  unknown   10 B     damaged: it has no entry.json",
        "",
        "spared        stage    model  size    why",
        "------------  -------  -----  ------  -----------------",
        "cccccccccccc  compile  bert   7.0 kB  it is being built",
        "",
        "removed 2 entries and 1 unfinished build, 246.8 MB",
        "3 entries, 1.5 kB stay in cache/store",
    ]


def test_a_dry_run_says_would() -> None:
    lines = gc_lines(GcReport(root=ROOT, dry_run=True, removed=(STEP,)), 110)
    assert lines[0].startswith("would go ")
    assert lines[-2] == "would remove 1 entry, 46.8 MB"


def test_a_collection_with_nothing_to_do_is_two_lines() -> None:
    assert gc_lines(GcReport(root=ROOT, dry_run=False, kept=1, kept_bytes=5), 110) == [
        "removed 0 entries, 0 B",
        "1 entry, 5 B stay in cache/store",
    ]


def test_a_sound_store_is_one_line() -> None:
    report = VerifyReport(root=ROOT, checked=2, checked_bytes=3_000_000)
    assert verify_lines(report, 110) == ["sound: 2 entries, 3.0 MB in cache/store"]


def test_damage_is_named_and_what_a_newer_version_wrote_is_not_damage() -> None:
    report = VerifyReport(root=ROOT, checked=1, checked_bytes=5, damaged=(DAMAGE,), newer=(NEWER,))
    assert verify_lines(report, 110) == [
        "DAMAGED eeeeeeeeeeee: model.onnx is missing",
        "  cache/store/entries/ee/e",
        "NEWER ffffffffffff: it has schema 2",
        "  cache/store/entries/ff/f",
        "sound: 1 entry, 5 B in cache/store",
        "damaged: 1 entry; each is built again when it is next needed.",
    ]


@pytest.mark.parametrize(
    ("removed", "end"), [(True, "model.onnx is missing; it is built again"), (False, "missing; it is left alone")]
)
def test_a_run_says_what_becomes_of_a_damaged_entry(removed: bool, end: str) -> None:
    damage = Damage(key=key("e"), folder="f", kind="damaged", problem="model.onnx is missing", removed=removed)
    assert damage_sentence(damage).startswith("the store's entry f cannot be used: ")
    assert damage_sentence(damage).endswith(end)


@pytest.mark.parametrize("width", [40, 60, 100])
def test_lines_fit_the_width(width: int) -> None:
    listing = StoreListing(root=ROOT, entries=(summary("a", "export"),), unusable=(NEWER,), leftover_bytes=1)
    report = GcReport(root=ROOT, dry_run=False, removed=(STEP, BROKEN), spared=(SPARED,))
    verified = VerifyReport(root=ROOT, checked=1, checked_bytes=5, damaged=(DAMAGE,))
    narrowest = 7 * 8 + 6 * 2
    lines = listing_lines(listing, width) + gc_lines(report, width) + verify_lines(verified, width)
    assert max(map(len, lines)) <= max(width, narrowest)
