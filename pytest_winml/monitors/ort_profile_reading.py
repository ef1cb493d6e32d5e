"""ORT's own profile, read in one pass: one event a line in a JSON array.

Four levels are kept apart: the session (loading, initialisation), `model_run` (one inference each), nodes as ORT runs
them (`<name>_kernel_time`), and what an EP adds of its own. An EP's events are appended when profiling ends, so where
an event belongs follows from its time, never from its line.
"""

from __future__ import annotations

import bisect
import re
import time
from array import array
from collections import Counter, defaultdict
from typing import IO, TYPE_CHECKING, Annotated, Literal

import msgspec

from pytest_winml.records.base import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

CPU = "CPUExecutionProvider"
# ORT drops what comes after (onnxruntime issue 16334), and nothing raises the limit.
MAX_EVENTS = 1_000_000
_MAX_LINE = 16 * 2**20
_SUFFIX = "_kernel_time"
_RETRY_S = (0.05, 0.1, 0.2, 0.4, 0.8)

Level = Literal["node", "partition", "ep"]
# Microseconds fit; what does not is no time.
_Micros = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class ProfileUnreadable(Exception):
    """Says what cannot be read, and where."""


class _Args(msgspec.Struct):
    op_name: str | None = None
    provider: str | None = None
    node_name: str | None = None
    node_index: str | None = None
    input_type_shape: msgspec.Raw = msgspec.Raw()
    output_type_shape: msgspec.Raw = msgspec.Raw()


class _Event(msgspec.Struct):
    cat: str
    name: str
    ts: _Micros
    dur: _Micros
    tid: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    args: _Args = msgspec.field(default_factory=_Args)


class Operator(Record, frozen=True, kw_only=True):
    """What ran, as the profile names it. `provider` is empty where the event does not say."""

    level: Level
    name: str
    op_type: str
    provider: str
    node_index: int | None = None
    shapes: str | None = None


class Run(Record, frozen=True, kw_only=True):
    start_us: int
    duration_us: int


class Call(Record, frozen=True, kw_only=True):
    """One event of an operator. `own_us` is without the nodes that ran inside it, as in the body of a loop."""

    operator: int
    run: int
    start_us: int
    duration_us: int
    own_us: int


class Profile:
    """`operators` in the order they first ran; `session_us` sums the events of the session by name."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []
        self.runs: list[Run] = []
        self.session_us: Counter[str] = Counter()
        self.unread: Counter[str] = Counter()
        self.events = 0
        self._places: dict[tuple[str, ...], int] = {}
        # Columns, so that a million events stay within a few dozen megabytes.
        self._operator = array("l")
        self._start = array("q")
        self._duration = array("q")
        self._thread = array("q")

    @property
    def capped(self) -> bool:
        return self.events >= MAX_EVENTS

    def add(self, event: _Event) -> None:
        self.events += 1
        level = _level(event)
        if level == "session":
            self._add_session(event)
        elif level is None:
            self.unread[event.cat] += 1
        else:
            self._operator.append(self._place(event, level))
            self._start.append(event.ts)
            self._duration.append(event.dur)
            self._thread.append(event.tid)

    def _add_session(self, event: _Event) -> None:
        if event.name == "model_run":
            self.runs.append(Run(start_us=event.ts, duration_us=event.dur))
        else:
            self.session_us[event.name] += event.dur

    def _place(self, event: _Event, level: Level) -> int:
        args = event.args
        name = event.name.removesuffix(_SUFFIX) if level != "ep" else args.node_name or event.name
        key = (level, name, args.op_name or "", args.provider or "")
        if key not in self._places:
            self._places[key] = len(self.operators)
            self.operators.append(
                Operator(
                    level=level,
                    name=name,
                    op_type=args.op_name or "",
                    provider=args.provider or "",
                    node_index=_number(args.node_index),
                    shapes=_shapes(args),
                )
            )
        return self._places[key]

    def calls(self) -> Iterator[Call]:
        """In order of time, with the run each belongs to; what lies in no run (its end was not recorded) is left."""
        self.runs.sort(key=lambda run: run.start_us)
        starts = [run.start_us for run in self.runs]
        order = sorted(range(len(self._start)), key=lambda place: (self._start[place], -self._duration[place]))
        own = self._own_times(order)
        for place in order:
            run = bisect.bisect_right(starts, self._start[place]) - 1
            if run >= 0 and self._start[place] <= starts[run] + self.runs[run].duration_us:
                yield Call(
                    operator=self._operator[place],
                    run=run,
                    start_us=self._start[place],
                    duration_us=self._duration[place],
                    own_us=own[place],
                )

    def _own_times(self, order: Sequence[int]) -> array[int]:
        """A node of control flow lasts as long as the nodes inside it, which have events of their own."""
        own = array("q", self._duration)
        open_nodes: dict[int, list[int]] = defaultdict(list)
        for place in order:
            if self.operators[self._operator[place]].level == "ep":
                continue
            stack = open_nodes[self._thread[place]]
            while stack and self._end(stack[-1]) < self._end(place):
                stack.pop()
            if stack and self._end(place) > self._start[stack[-1]]:
                own[stack[-1]] = max(0, own[stack[-1]] - self._duration[place])
            stack.append(place)
        return own

    def _end(self, place: int) -> int:
        return self._start[place] + self._duration[place]


def read_profile(path: Path, pause: Callable[[float], None] = time.sleep) -> Profile | None:
    """None for a file that is not there or is empty; `ProfileUnreadable` with the line for one that is not whole."""
    stream = _open(path, pause)
    if stream is None:
        return None
    with stream:
        profile = Profile()
        if _read_events(stream, profile):
            return profile
    return None


def _open(path: Path, pause: Callable[[float], None]) -> IO[bytes] | None:
    """On Windows whoever scans new files may hold this one for a moment."""
    for delay in (*_RETRY_S, None):
        try:
            return path.open("rb")
        except FileNotFoundError:
            return None
        except OSError as error:
            if delay is None or not isinstance(error, PermissionError):
                raise ProfileUnreadable(f"{path.name} cannot be opened: {error}") from error
            pause(delay)
    return None


def _read_events(stream: IO[bytes], profile: Profile) -> bool:
    """Whether there was anything at all."""
    decode = msgspec.json.Decoder(_Event).decode
    number, before = 0, b""
    while line := stream.readline(_MAX_LINE):
        number += 1
        text = line.strip()
        if not text:
            continue
        if problem := _out_of_place(before, text):
            raise ProfileUnreadable(f"line {number}: {problem} {_seen(text)}")
        first, before = not before, text[-1:]
        if not first and text != b"]":
            try:
                text.decode()  # the decoder does not look into texts that nobody wants
                profile.add(decode(text.removesuffix(b",")))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise ProfileUnreadable(f"line {number}: {error} in {_seen(text)}") from error
    if before not in (b"", b"]"):
        raise ProfileUnreadable(f"line {number}: the profile is cut short")
    return bool(before)


def _out_of_place(before: bytes, text: bytes) -> str | None:
    """What is wrong with a line after one that ended so."""
    if not before:
        return None if text == b"[" else "a profile begins with a bracket, not with"
    if before == b"]":
        return "after the end of the profile comes"
    if text == b"]":
        return "after a comma comes" if before == b"," else None
    return None if before in (b"[", b",") else "no comma before"


def _seen(text: bytes) -> str:
    return repr(text[:80].decode("utf-8", errors="replace"))


def _level(event: _Event) -> Level | Literal["session"] | None:
    """None for what is neither time nor operator: fences of old versions, an EP's calls of its driver."""
    args = event.args
    if event.cat == "Session":
        return "session"
    if event.cat == "Node" and event.name.endswith(_SUFFIX) and args.provider is not None:
        return "partition" if _is_fused(event.name.removesuffix(_SUFFIX), args) else "node"
    if args.node_name is not None or (event.cat == "Kernel" and args.op_name is not None):
        return "ep"
    return None


def _is_fused(name: str, args: _Args) -> bool:
    """ORT calls what an EP compiled `<EP>_<its graph>_<number>`."""
    if args.provider == CPU:
        return False
    return re.fullmatch(rf"{re.escape(f'{args.provider}_{args.op_name}')}_\d+", name) is not None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _shapes(args: _Args) -> str | None:
    """`float[1,3,8,8], float[8] -> float[1,8]`."""
    if not (args.input_type_shape or args.output_type_shape):
        return None
    return f"{_tensors(args.input_type_shape)} -> {_tensors(args.output_type_shape)}"


def _tensors(raw: msgspec.Raw) -> str:
    try:
        tensors = msgspec.json.decode(raw, type=list[dict[str, list[int]]])
    except msgspec.DecodeError:
        return "?"
    return ", ".join(f"{dtype}{shape}".replace(" ", "") for one in tensors for dtype, shape in one.items())
