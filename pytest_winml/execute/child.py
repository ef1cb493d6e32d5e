"""The child's side of a worker: one service object, one request at a time.

The main thread runs the service, since some native libraries insist on it. A daemon thread reads the requests: it
notices that the parent is gone while native code runs, and ends the process. Native code that keeps the interpreter's
lock delays that until it gives the lock back.
"""

from __future__ import annotations

import inspect
import os
import threading
import traceback
import typing
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace

import msgspec

from pytest_winml import errors
from pytest_winml.execute import wire
from pytest_winml.execute.confine import confine, vanish

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_Inbox: typing.TypeAlias = "SimpleQueue[wire.Request | wire.Close]"
_NO_RESULT = wire.raw(None)
_MAX_TEXT = 64 * 1024


def main(arguments: Sequence[str]) -> int:
    """Serve until the parent says `Close`. `arguments`: the service, the log, the prefixes a service may have."""
    service_name, log_name, *allowed_prefixes = arguments
    log_path = Path(log_name)
    ends = confine(log_path)
    inbox: _Inbox = SimpleQueue()
    threading.Thread(target=_read_requests, args=(ends.requests_fd, inbox), name="requests", daemon=True).start()
    wire.write_all(ends.answers_fd, wire.PREAMBLE)
    try:
        service = _create(service_name, log_path, tuple(allowed_prefixes))
    except Exception as error:  # noqa: BLE001 - whatever a service's start raises, the parent must hear it
        failure = _failure(error, f"the service {service_name} did not start")
        _send(ends.answers_fd, wire.Answer(wire.START_ID, _NO_RESULT, failure))
        return 1
    _send(ends.answers_fd, wire.Answer(wire.START_ID, wire.raw(wire.Started(pid=os.getpid()))))
    _serve(service, service_name, inbox, ends.answers_fd)
    return 0


def _serve(service: object, service_name: str, inbox: _Inbox, answers_fd: int) -> None:
    while isinstance(request := inbox.get(), wire.Request):
        _send(answers_fd, _answer(service, service_name, request))
    close = getattr(service, "close", None)
    if callable(close):
        close()


def _read_requests(fd: int, inbox: _Inbox) -> None:
    reader = wire.FrameReader(fd)
    decoder = msgspec.msgpack.Decoder(wire.Request | wire.Close)
    try:
        while (frame := reader.next_frame()) is not None:
            inbox.put(decoder.decode(frame))
    except Exception:  # noqa: BLE001 - without a parent that speaks the protocol there is nobody left to tell
        traceback.print_exc()
    finally:
        vanish()


def _create(name: str, log_path: Path, allowed_prefixes: tuple[str, ...]) -> object:
    module_name, _, class_name = name.partition(":")
    if not module_name.startswith(allowed_prefixes):
        raise errors.WorkerError(
            f"the service {name!r} is outside of {', '.join(allowed_prefixes)}",
            remedy="name a service of this package as 'pytest_winml.module:ClassName'.",
        )
    factory = getattr(import_module(module_name), class_name)
    return factory(directory=Path.cwd(), log_path=log_path)


def _answer(service: object, service_name: str, request: wire.Request) -> wire.Answer:
    try:
        method = _public_method(service, service_name, request.method)
        return wire.Answer(request.id, wire.raw(method(*_arguments(method, request))))
    except Exception as error:  # noqa: BLE001 - an error of the service is an answer, not the end of the worker
        return wire.Answer(request.id, _NO_RESULT, _failure(error, f"{request.method} of {service_name} failed"))


def _public_method(service: object, service_name: str, name: str) -> Callable[..., object]:
    function = None if name.startswith("_") else getattr(type(service), name, None)
    if not inspect.isfunction(function):
        raise errors.WorkerError(f"the service {service_name} has no method {name!r}")
    bound: Callable[..., object] = getattr(service, name)
    return bound


def _arguments(method: Callable[..., object], request: wire.Request) -> tuple[object, ...]:
    """The decoded argument, if the method takes one. Only its type must be importable at run time."""
    parameters = list(inspect.signature(method).parameters.values())
    if not parameters:
        if bytes(request.argument) != bytes(_NO_RESULT):
            raise errors.WorkerError(f"{request.method} takes no argument, but was given one")
        return ()
    if len(parameters) > 1:
        raise errors.WorkerError(f"{request.method} takes {len(parameters)} arguments; a service's method takes one")
    holder = SimpleNamespace(__annotations__={"argument": parameters[0].annotation})
    function = inspect.unwrap(getattr(method, "__func__", method))
    hints = typing.get_type_hints(holder, globalns=getattr(function, "__globals__", {}))
    return (msgspec.msgpack.decode(request.argument, type=hints["argument"]),)


def _failure(error: Exception, what: str) -> wire.Failure:
    if isinstance(error, errors.WinmlError):
        return wire.Failure(
            kind=next(base.__name__ for base in type(error).__mro__ if base.__module__ == errors.__name__),
            message=_sendable(error.message),
            remedy=error.remedy and _sendable(error.remedy),
            log_tail=error.log_tail and _sendable(error.log_tail),
        )
    return wire.Failure(
        kind=errors.WorkerError.__name__,
        message=_sendable(f"{what}: {type(error).__qualname__}: {error}"),
        log_tail=_sendable("".join(traceback.format_exception(error))),
    )


def _sendable(text: str) -> str:
    """Text as UTF-8 can carry it (a file name may hold lone surrogates), and not without end."""
    return text[-_MAX_TEXT:].encode("utf-8", "backslashreplace").decode("utf-8")


def _send(fd: int, answer: wire.Answer) -> None:
    try:
        payload = wire.encode(answer)
    except wire.FrameError as error:
        failure = wire.Failure(kind=errors.WorkerError.__name__, message=f"the answer cannot be sent: {error}")
        payload = wire.encode(wire.Answer(answer.id, _NO_RESULT, failure))
    wire.write_frame(fd, payload)
