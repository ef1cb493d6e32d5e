from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_winml.errors import InfrastructureError
from pytest_winml.records.report import SCHEMA_VERSION, JournalEntry, RunReport
from pytest_winml.store.journal import Journal, compose, read_journal
from tests.records.samples import FINISHED, ITEM, STARTED

if TYPE_CHECKING:
    from pathlib import Path

OTHER = msgspec.structs.replace(ITEM, nodeid="tests/test_a.py::test_other", outcome="passed", failure=None)
WHOLE: tuple[JournalEntry, ...] = (STARTED, ITEM, OTHER, FINISHED)


def written(path: Path, *entries: JournalEntry) -> Path:
    journal = Journal(path)
    for entry in entries:
        journal.append(entry)
    journal.close()
    return path


def refusal(path: Path) -> InfrastructureError:
    with pytest.raises(InfrastructureError) as caught:
        read_journal(path)
    return caught.value


def test_what_was_appended_is_read_back_in_order(tmp_path: Path) -> None:
    assert read_journal(written(tmp_path / "new" / "run.jsonl", *WHOLE)) == WHOLE


def test_every_entry_is_one_line_that_says_what_it_is(tmp_path: Path) -> None:
    lines = written(tmp_path / "run.jsonl", *WHOLE).read_text(encoding="utf-8").splitlines()
    kinds = [json.loads(line)["entry"] for line in lines]
    assert kinds == ["run_started", "item_finished", "item_finished", "run_finished"]


def test_an_entry_is_on_the_disk_before_the_next_test_runs(tmp_path: Path) -> None:
    """A kill loses nothing that was appended: no close is needed."""
    journal = Journal(tmp_path / "run.jsonl")
    journal.append(STARTED)
    journal.append(ITEM)
    assert read_journal(journal.path) == (STARTED, ITEM)
    journal.close()


def test_a_journal_goes_on_where_it_ended(tmp_path: Path) -> None:
    written(tmp_path / "run.jsonl", STARTED)
    assert read_journal(written(tmp_path / "run.jsonl", ITEM)) == (STARTED, ITEM)


def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run.jsonl")
    journal.append(STARTED)
    journal.close()
    journal.close()
    assert read_journal(journal.path) == (STARTED,)


def test_two_runs_at_once_write_two_journals(tmp_path: Path) -> None:
    first, second = Journal(tmp_path / "1.jsonl"), Journal(tmp_path / "2.jsonl")
    other_start = msgspec.structs.replace(STARTED, run_id="another")
    for journal, start, item in ((first, STARTED, ITEM), (second, other_start, OTHER)):
        journal.append(start)
        journal.append(item)
    first.append(FINISHED)
    assert compose(read_journal(first.path)).items == (ITEM,)
    assert compose(read_journal(second.path)) == RunReport(started=other_start, items=(OTHER,), finished=None)
    first.close()
    second.close()


def test_a_folder_that_cannot_be_made_is_trouble_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"a file")
    with pytest.raises(InfrastructureError, match="cannot be written") as caught:
        Journal(tmp_path / "taken" / "run.jsonl")
    assert caught.value.remedy == "choose another --winml-report-dir."


def test_a_full_disk_is_trouble_of_the_machine(tmp_path: Path) -> None:
    class FullDisk:
        def write(self, _: bytes) -> int:
            raise OSError(28, "No space left on device")

    journal = Journal(tmp_path / "run.jsonl")
    journal.close()
    full: Any = FullDisk()
    journal._file = full
    with pytest.raises(InfrastructureError, match="No space left on device"):
        journal.append(STARTED)


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_a_last_line_that_a_kill_cut_short_is_left_out(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "run.jsonl", STARTED, ITEM, OTHER)
    path.write_bytes(path.read_bytes()[: -1 - cut])
    assert read_journal(path) == (STARTED, ITEM)


def test_a_last_line_cut_inside_a_letter_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", STARTED, ITEM)
    content = path.read_bytes()
    path.write_bytes(content[: content.rindex("→".encode()) + 1])
    assert read_journal(path) == (STARTED,)


def test_a_last_line_that_only_lacks_its_line_break_counts(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", STARTED, ITEM)
    path.write_bytes(path.read_bytes()[:-1])
    assert read_journal(path) == (STARTED, ITEM)


@pytest.mark.parametrize(
    "broken",
    [
        b"not json",
        b"",
        b"{}",
        b'{"entry": "something_else"}',
        b'{"entry": "run_finished", "finished_at": "\xff", "exit_status": 0, "interrupted": false}',
    ],
)
def test_a_broken_line_before_the_last_is_named_by_its_number(tmp_path: Path, broken: bytes) -> None:
    path = written(tmp_path / "run.jsonl", STARTED, ITEM, FINISHED)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], broken, *lines[2:]]))
    problem = refusal(path)
    assert problem.message.startswith(f"{path}, line 2: not a journal entry (")


def test_a_target_this_version_does_not_know_is_a_broken_line_and_no_usage_problem(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", STARTED, ITEM)
    path.write_bytes(path.read_bytes().replace(b'"spec":"qnn:npu"', b'"spec":"abacus"'))
    assert "line 2: not a journal entry (unknown target 'abacus'" in refusal(path).message


def test_a_journal_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert str(tmp_path / "gone.jsonl") in refusal(tmp_path / "gone.jsonl").message


def test_an_empty_journal_has_no_entries(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").touch()
    assert read_journal(tmp_path / "run.jsonl") == ()


def test_a_journal_of_a_later_schema_is_refused_with_what_to_do() -> None:
    later = msgspec.structs.replace(STARTED, schema_version=SCHEMA_VERSION + 1)
    with pytest.raises(InfrastructureError) as caught:
        compose([later, ITEM])
    assert caught.value.message == (
        f"the journal has schema {SCHEMA_VERSION + 1}; this version reads up to {SCHEMA_VERSION}"
    )
    assert caught.value.remedy == "update pytest-winml."


def test_a_later_schema_is_recognised_although_its_fields_are_unknown(tmp_path: Path) -> None:
    """What a later version adds must not read as damage."""
    content = msgspec.json.decode(msgspec.json.encode(STARTED))
    later = {**content, "schema_version": SCHEMA_VERSION + 1, "weather": "fine"}
    (tmp_path / "run.jsonl").write_bytes(msgspec.json.encode(later) + b"\n")
    problem = refusal(tmp_path / "run.jsonl")
    assert f"has schema {SCHEMA_VERSION + 1}" in problem.message
    assert problem.remedy == "update pytest-winml."


def test_an_unknown_field_in_this_schema_is_damage(tmp_path: Path) -> None:
    content = msgspec.json.decode(msgspec.json.encode(STARTED))
    (tmp_path / "run.jsonl").write_bytes(msgspec.json.encode({**content, "weather": "fine"}) + b"\n")
    assert "line 1: not a journal entry" in refusal(tmp_path / "run.jsonl").message


def test_a_whole_journal_composes_to_a_report() -> None:
    assert compose(WHOLE) == RunReport(started=STARTED, items=(ITEM, OTHER), finished=FINISHED)


def test_a_killed_run_composes_to_an_unfinished_report() -> None:
    assert compose([STARTED, ITEM]) == RunReport(started=STARTED, items=(ITEM,), finished=None)


def test_the_last_word_on_a_test_counts_and_keeps_its_place() -> None:
    again = msgspec.structs.replace(ITEM, outcome="passed", failure=None)
    assert compose([STARTED, ITEM, OTHER, again]).items == (again, OTHER)


@pytest.mark.parametrize("entries", [(), (ITEM,), (FINISHED,)])
def test_entries_without_a_start_say_nothing_about_a_run(entries: tuple[JournalEntry, ...]) -> None:
    with pytest.raises(InfrastructureError, match="without its first entry"):
        compose(entries)
