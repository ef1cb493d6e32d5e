"""QNN's profile of a session, read as a stream: a CSV without any quoting, in which names may hold anything.

A row is NODE (cycles of one operator), EXECUTE (the end of one partition's block) or another event. Every line is
counted under what it is, and a block whose NODE rows do not add up to its accelerator cycles is an error.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from pytest_winml.errors import MonitorError
from pytest_winml.monitors.qnn_csv_rows import COLUMNS, SOURCES_COLUMN, Operator, read_operator
from pytest_winml.records.base import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

_CHUNK_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
_UNKNOWN = b"UNKNOWN"
_MOST_DIGITS = 18
UNKNOWN_CYCLES = -1  # in a sample, of a NODE row whose value the backend did not say

_BLOCK_STARTS = b"Number of HVX threads used"
_FIELD_OF = {
    b"Accelerator (execute) time (cycles)": "cycles",
    b"Accelerator (execute) time": "accelerator_us",
    b"QNN (execute) time": "execute_us",
    _BLOCK_STARTS: "hvx_threads",
}
_SHARING_VIOLATIONS = (32, 33)
_WAITS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class MalformedProfile(MonitorError):
    """`line` counts from 1, from the beginning of the file."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line = line


class Section(Record, frozen=True, kw_only=True):
    """Bytes of the file that one run wrote; `run` None for what no run did, as the creation of the session."""

    start: int
    end: int
    run: int | None = None


class Block(Record, frozen=True, kw_only=True):
    """One execution of one partition. `line` is its EXECUTE row; None is a value that the backend did not say."""

    run: int | None
    partition: int
    line: int
    sample: int
    cycles: int | None = None
    accelerator_us: int | None = None
    execute_us: int | None = None
    hvx_threads: int | None = None


class Cut(Record, frozen=True, kw_only=True):
    """A block that has no end: its rows are counted and are in no figure."""

    run: int | None
    line: int
    rows: int


class Partition:
    """The operators of one graph in the order of their rows, and a sample of their cycles for each block of it."""

    def __init__(self, operators: tuple[Operator, ...]) -> None:
        self.operators = operators
        self.samples: list[array[int]] = []


class Profile:
    """`counts` says of every line what it is; `others` are the events that are neither NODE nor a block's own."""

    def __init__(self) -> None:
        self.lines = 0
        self.counts: Counter[str] = Counter()
        self.others: Counter[str] = Counter()
        self.partitions: list[Partition] = []
        self.blocks: list[Block] = []
        self.cuts: list[Cut] = []


def read_profile(path: Path, sections: Sequence[Section], known: frozenset[str] = frozenset()) -> Profile:
    """All of the file up to the end of the last section, and nothing after it. `known` are names of operators.

    Raises `MalformedProfile`, and `OSError` where the file cannot be read at all.
    """
    reader = _Reader(known)
    with open_patiently(path) as file:
        for section in _covering(sections):
            reader.begin(section.run)
            for chunk in _chunks(file, section):
                reader.feed(chunk)
            if file.tell() < section.end:
                reader.fail(f"the file ends at byte {file.tell()}, before the {section.end} that were written to it")
            reader.end_section()
    return reader.finish()


def open_patiently(
    path: Path, *, sleep: Callable[[float], None] = time.sleep, waits_s: Iterable[float] = _WAITS_S
) -> BinaryIO:
    """On Windows a file that somebody still writes, or a virus scanner reads, cannot be opened for a moment."""
    for wait_s in waits_s:
        try:
            return path.open("rb")
        except OSError as error:
            if getattr(error, "winerror", None) not in _SHARING_VIOLATIONS:
                raise
            sleep(wait_s)
    return path.open("rb")


def _covering(sections: Sequence[Section]) -> Iterator[Section]:
    """The sections, with the gaps between them as sections of no run."""
    position = 0
    for section in sorted(sections, key=lambda one: (one.start, one.end)):
        if section.start < position:
            raise MonitorError(f"two runs claim the same bytes of a profile: {section.start} to {position}")
        if section.start > position:
            yield Section(start=position, end=section.start)
        yield section
        position = section.end


def _chunks(file: BinaryIO, section: Section) -> Iterator[bytes]:
    left = section.end - section.start
    while left > 0 and (chunk := file.read(min(left, _CHUNK_BYTES))):
        left -= len(chunk)
        yield chunk


class _Reader:
    """The state between two lines. NODE rows of the block at hand are kept as text until the block is whole."""

    def __init__(self, known: frozenset[str]) -> None:
        self._known = known
        self._profile = Profile()
        self._line = 0
        self._rest = b""
        self._run: int | None = None
        self._with_sources = False
        self._headed = False
        self._by_signature: dict[tuple[bytes, ...], int] = {}
        self._tails: list[bytes] = []
        self._values: list[bytes] = []
        self._fields: dict[str, int | None] = {}

    def begin(self, run: int | None) -> None:
        self._run = run

    def feed(self, chunk: bytes) -> None:
        data = self._rest + chunk if self._rest else chunk
        lines = data.split(b"\n")
        self._rest = lines.pop()
        if b"\r" in data:
            lines = [line.removesuffix(b"\r") for line in lines]
        self._read(lines)

    def end_section(self) -> None:
        """A line that goes on in the next section takes its block with it."""
        if not self._rest:
            self._cut()

    def finish(self) -> Profile:
        if self._rest:
            self._line += 1
            self._profile.counts["cut line"] += 1
        self._cut()
        if self._line and not self._headed:
            self.fail("the file has no header")
        self._profile.lines = self._line
        return self._profile

    def fail(self, what: str) -> NoReturn:
        raise MalformedProfile(max(1, self._line), what)

    def _read(self, lines: list[bytes]) -> None:
        # The hot loop: names are looked at once a partition, numbers once a block.
        number = self._line
        tails, values = self._tails, self._values
        for line in lines:
            number += 1
            try:
                _, kind, value, unit, _, _, tail = line.split(b",", 6)
            except ValueError:
                self._line = number
                self._odd(line)
                continue
            if kind == b"NODE" and unit == b"CYCLES" and self._headed and (value.isdigit() or value == _UNKNOWN):
                tails.append(tail)
                values.append(value)
            else:
                self._line = number
                self._event(kind, value, unit, tail, line)
        self._line = number

    def _odd(self, line: bytes) -> None:
        if line.strip(b" \t\r"):
            if not self._headed or line.startswith((b"Msg ", _BOM)):
                self._header(line)
            self.fail(f"{line.count(b',') + 1} columns instead of {len(COLUMNS)}")
        self._profile.counts["blank"] += 1

    def _event(self, kind: bytes, value: bytes, unit: bytes, tail: bytes, line: bytes) -> None:
        if not self._headed or line.startswith(COLUMNS[0].encode()):
            self._header(line)
            return
        if kind == b"NODE" and unit != b"CYCLES":
            self.fail(f"a NODE row is in {_text(unit)}, and operators are counted in CYCLES")
        if not value.isdigit() and value != _UNKNOWN:
            self.fail(f"column {COLUMNS[2]!r} is {_text(value)!r}, which is no number")
        identifier = tail
        if self._with_sources:
            identifier, comma, _ = tail.rpartition(b",")
            if not comma:
                self.fail(f"column {SOURCES_COLUMN!r} is missing")
        self._profile.counts[_text(kind)] += 1
        field = _FIELD_OF.get(identifier)
        if identifier == _BLOCK_STARTS:
            self._cut()
        if field is None:
            self._profile.others[f"{_text(identifier)} ({_text(unit)})"] += 1
        else:
            self._fields[field] = None if value == _UNKNOWN else self._integer(value)
        if kind == b"EXECUTE":
            self._close_block()

    def _header(self, line: bytes) -> None:
        names = _text(line.removeprefix(_BOM)).split(",")
        expected = [*COLUMNS, SOURCES_COLUMN]
        for name in COLUMNS:
            if name not in names:
                self.fail(f"column {name!r} is missing")
        for place, name in enumerate(names):
            if name not in expected:
                self.fail(f"column {name!r} is unknown")
            if expected[place] != name:
                self.fail(f"column {name!r} is where {expected[place]!r} should be")
        self._cut()
        self._with_sources = len(names) > len(COLUMNS)
        self._headed = True
        self._profile.counts["header"] += 1

    def _close_block(self) -> None:
        sample, partition = self._sample(), self._partition()
        cycles = self._fields.get("cycles")
        if cycles is not None and UNKNOWN_CYCLES not in sample and sum(sample) != cycles:
            self.fail(f"NODE rows of the block add up to {sum(sample)} cycles, and the accelerator says {cycles}")
        self._profile.counts["NODE"] += len(sample)
        samples = self._profile.partitions[partition].samples
        samples.append(sample)
        self._profile.blocks.append(
            Block(run=self._run, partition=partition, line=self._line, sample=len(samples) - 1, **self._fields)
        )
        self._forget_block()

    def _sample(self) -> array[int]:
        unknown = _UNKNOWN in self._values
        values = [b"-1" if value == _UNKNOWN else value for value in self._values] if unknown else self._values
        try:
            return array("q", map(int, values))
        except (OverflowError, ValueError):
            longest = max(range(len(values)), key=lambda index: len(values[index]))
            self.fail(f"a NODE row of the block that ends here has {len(values[longest])} digits of cycles")

    def _integer(self, value: bytes) -> int:
        # Longer numbers are no figures of a device, and Python reads no integer of any length.
        if len(value) > _MOST_DIGITS:
            self.fail(f"column {COLUMNS[2]!r} has {len(value)} digits")
        return int(value)

    def _partition(self) -> int:
        signature = tuple(self._tails)
        index = self._by_signature.get(signature)
        if index is None:
            index = self._by_signature[signature] = len(self._profile.partitions)
            self._profile.partitions.append(Partition(tuple(map(self._operator, signature))))
        return index

    def _operator(self, tail: bytes) -> Operator:
        operator = read_operator(tail, self._known, with_sources=self._with_sources)
        if operator is None:
            self.fail(f"{_text(tail)!r} in the block that ends here names no operator")
        return operator

    def _cut(self) -> None:
        """Rows of a block that ended without its EXECUTE row."""
        if self._tails or self._fields:
            self._profile.counts["NODE"] += len(self._tails)
            self._profile.cuts.append(Cut(run=self._run, line=self._line, rows=len(self._tails) + len(self._fields)))
        self._forget_block()

    def _forget_block(self) -> None:
        # Emptied in place: the hot loop holds on to both lists.
        self._tails.clear()
        self._values.clear()
        self._fields = {}


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
