"""A child process that holds native code, and the parent that survives it.

    worker = Worker("pytest_winml.session.service:SessionService", directory=directory)
    opened = worker.call("open", OpenRequest(...), Opened, timeout_s=120)
    worker.close()

Every way in which native code can misbehave is one class of error: `WorkerCrashed`, `WorkerTimedOut`, `WorkerFlooded`,
`WorkerGarbled`. After any of them the worker is dead, with all that it started.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from dataclasses import dataclass
from queue import Empty
from typing import TYPE_CHECKING, TypeVar

import msgspec

from pytest_winml import errors, units
from pytest_winml.execute import exit_status, launch, log, wire
from pytest_winml.execute.channel import Channel
from pytest_winml.execute.process_tree import has_exited, kill_tree, wait_exit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

T = TypeVar("T")

LOG_LIMIT_BYTES = 64 * 1024**2
ALLOWED_PREFIXES = ("pytest_winml.",)
_TICK_S = 0.05  # how often a waiting parent looks whether the child lives and how long its log is
_LAST_WORDS_S = 0.5  # how long the answer of a child that has died may take to come out of the pipe
_POLITE_S = 3.0
_KILL_S = 5.0
_GOING_S = 5.0  # how long a child may take to die after its end of the channel is closed


@dataclass(frozen=True, slots=True)
class _Call:
    method: str
    timeout_s: float
    deadline: float


class Worker:
    """One process with one service, which is created as `Service(directory=..., log_path=...)`.

    A method of a service takes nothing or one `msgspec.Struct`, and returns what msgspec can encode. Calls from several
    threads wait for each other. The first call waits for the start too, within its own limit.
    """

    def __init__(
        self,
        service: str,
        *,
        directory: Path,
        log_limit_bytes: int = LOG_LIMIT_BYTES,
        allowed_prefixes: tuple[str, ...] = ALLOWED_PREFIXES,
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        self.service = service
        self.directory = directory.absolute()
        self.log_path = self.directory / "worker.log"
        self._log_limit_bytes = log_limit_bytes
        self._lock = threading.Lock()
        self._last_id = wire.START_ID
        self._started = False
        self._ended: str | None = None
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._log_start = self._log_mark = log.current_offset(self.log_path)
            self._process = launch.start(
                [service, str(self.log_path), *allowed_prefixes],
                python=python,
                directory=self.directory,
                log_path=self.log_path,
                environment=environment or {},
            )
        except OSError as error:
            raise errors.InfrastructureError(f"no worker for {service} could be started: {error}") from error
        self.pid = self._process.pid
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018 - for mypy
        self._channel = Channel(self._process.stdin, self._process.stdout)

    @property
    def alive(self) -> bool:
        return self._ended is None and not has_exited(self._process)

    def call(self, method: str, argument: msgspec.Struct | None, result: type[T], *, timeout_s: float) -> T:
        """The result of one method of the service; its own `WinmlError` if it raised one."""
        with self._lock:
            payload = self._request(method, argument)
            call = _Call(method, timeout_s, time.monotonic() + timeout_s)
            with self._killed_by_any_error(call):
                self._await_start(call)
                self._channel.send(payload)
                answer = self._receive(self._last_id, call)
                if answer.failure is None:
                    value = self._decode(answer.result, result, call)
                    self._log_mark = log.current_offset(self.log_path)
                    return value
            error = self._remote_error(answer.failure)
            self._log_mark = log.current_offset(self.log_path)
            raise error

    def close(self) -> None:
        """Let the service finish, then kill what is left. The directory and the log stay; they are the caller's."""
        try:
            # A call that is under way in another thread is not waited for.
            if self._lock.acquire(blocking=False):
                try:
                    self._ask_to_end()
                finally:
                    self._lock.release()
        finally:
            self._end("it was closed")

    def _ask_to_end(self) -> None:
        if self.alive:
            self._channel.send(wire.encode(wire.Close()))
            wait_exit(self._process, _POLITE_S)

    def _request(self, method: str, argument: msgspec.Struct | None) -> bytes:
        self._last_id += 1
        try:
            return wire.encode(wire.Request(self._last_id, method, wire.raw(argument)))
        except wire.FrameError as error:
            raise errors.WorkerError(f"{method} of {self.service} cannot be asked for: {error}") from None

    @contextlib.contextmanager
    def _killed_by_any_error(self, call: _Call) -> Iterator[None]:
        """Also by a KeyboardInterrupt: an answer nobody waits for would be taken for that of the next call."""
        try:
            yield
        except BaseException as error:
            self._end(f"{call.method} ended with {type(error).__name__}")
            raise

    def _await_start(self, call: _Call) -> None:
        if self._ended is not None:
            raise errors.WorkerError(f"{self._name} cannot run {call.method}: {self._ended}")
        if self._started:
            if has_exited(self._process):
                raise self._gone(call, f"before {call.method}")
            return
        answer = self._receive(wire.START_ID, call)
        if answer.failure is not None:
            raise self._remote_error(answer.failure)
        self.pid = self._decode(answer.result, wire.Started, call).pid
        self._started = True

    def _receive(self, request_id: int, call: _Call) -> wire.Answer:
        frame = self._await_frame(call)
        self._check_log(call)
        answer = self._decode(frame, wire.Answer, call)
        if answer.id != request_id:
            raise self._garbled(call, f"it answered request {answer.id} instead of {request_id}")
        return answer

    def _await_frame(self, call: _Call) -> bytes:
        while True:
            # Looked at before the inbox: what a dead child has sent is in the pipe already.
            exited = has_exited(self._process)
            left_s = max(0.0, call.deadline - time.monotonic())
            try:
                item = self._channel.inbox.get(timeout=_LAST_WORDS_S if exited else min(_TICK_S, left_s))
            except Empty:
                self._check_waiting(call, exited=exited, left_s=left_s)
                continue
            if isinstance(item, bytes):
                return item
            if isinstance(item, wire.FrameError):
                raise self._garbled(call, str(item))
            raise self._gone(call)

    def _check_waiting(self, call: _Call, *, exited: bool, left_s: float) -> None:
        if exited:
            raise self._gone(call)
        self._check_log(call)
        if left_s <= 0:
            doing = "did not answer" if self._started else "did not finish its start for"
            raise self._lost(
                errors.WorkerTimedOut,
                f"{self._name} {doing} {call.method} within {units.seconds(call.timeout_s)} and was killed",
                f"raise the time limit if the work is expected to take longer; the log is {self.log_path}.",
            )

    def _check_log(self, call: _Call) -> None:
        size_bytes = log.current_offset(self.log_path) - self._log_start
        if size_bytes > self._log_limit_bytes:
            raise self._lost(
                errors.WorkerFlooded,
                f"{self._name} had printed {units.byte_size(size_bytes)} in {call.method} and was killed; "
                f"the limit is {units.byte_size(self._log_limit_bytes)}",
                "lower the log level of the runtime or of the execution provider.",
            )

    def _gone(self, call: _Call, when: str | None = None) -> errors.WorkerError:
        """The error for a child whose answers have ended."""
        if not wait_exit(self._process, _GOING_S):
            return self._garbled(call, "it closed the channel and went on running")
        if self._ended is not None:
            return errors.WorkerError(f"{self._name} cannot finish {call.method}: {self._ended}")
        when = when or (f"in {call.method}" if self._started else f"while it started for {call.method}")
        self._end(f"it died {when}")
        status = self._process.returncode
        return self._lost(
            errors.WorkerCrashed,
            f"{self._name} died {when} without an answer: {exit_status.describe(status)}",
            exit_status.advice(status) or f"the log is {self.log_path}.",
        )

    def _garbled(self, call: _Call, what: str) -> errors.WorkerError:
        return self._lost(
            errors.WorkerGarbled,
            f"{self._name} broke the protocol in {call.method} and was killed: {what}",
            f"look for native code that writes to a descriptor not its own; the log is {self.log_path}.",
        )

    def _lost(self, kind: type[errors.WorkerError], message: str, remedy: str) -> errors.WorkerError:
        """Kill first, then read: the log is complete, and what would not die can be told."""
        survivors = self._end(message)
        if survivors:
            message += f"; {units.count(len(survivors), 'process', 'processes')} would not die: {survivors}"
        return kind(log.redact(message), remedy=log.redact(remedy), log_tail=self._log_tail() or None)

    def _remote_error(self, failure: wire.Failure) -> errors.WinmlError:
        """The error of the service; one of a foreign class comes with what native code had to say before it."""
        tail = failure.log_tail and log.redact(failure.log_tail)
        if failure.kind == errors.WorkerError.__name__:
            tail = "\n".join(part for part in (self._log_tail(), tail) if part)
        return errors.error_class(failure.kind)(
            log.redact(failure.message), remedy=failure.remedy and log.redact(failure.remedy), log_tail=tail or None
        )

    def _log_tail(self) -> str:
        early = "" if self._started else log.tail_of(self._channel.early, cut=False)
        return "\n".join(part for part in (early, log.tail(self.log_path, start=self._log_mark)) if part)

    def _decode(self, data: bytes | msgspec.Raw, kind: type[T], call: _Call) -> T:
        try:
            return msgspec.msgpack.decode(data, type=kind)
        except msgspec.DecodeError as error:
            raise self._garbled(call, f"its answer is not {getattr(kind, '__name__', kind)}: {error}") from error

    def _end(self, why: str) -> tuple[int, ...]:
        if self._ended is None:
            self._ended = why
        survivors = kill_tree(self._process, _KILL_S)
        self._channel.close(_LAST_WORDS_S)
        return survivors

    @property
    def _name(self) -> str:
        return f"the worker {self.pid} of {self.service}"
