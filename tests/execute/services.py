"""Services that do to a worker's process what native code does."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import msgspec

from pytest_winml.errors import BuildError, TargetAbsent
from pytest_winml.execute import log, wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Text(msgspec.Struct, frozen=True):
    text: str


class Payload(msgspec.Struct, frozen=True):
    data: bytes


class Place(msgspec.Struct, frozen=True):
    directory: str
    log_path: str
    cwd: str
    modules: tuple[str, ...]


class HomeMadeError(TargetAbsent):
    """A class that only the child knows."""


class Obedient:
    def __init__(self, directory: Path, log_path: Path) -> None:
        self._directory = directory
        self._log_path = log_path

    def echo(self, argument: Text) -> Text:
        return argument

    def reverse(self, argument: Payload) -> Payload:
        return Payload(argument.data[::-1])

    def pid(self) -> int:
        return os.getpid()

    def place(self) -> Place:
        import json

        modules = tuple(str(module.__file__) for module in (msgspec, json))
        return Place(str(self._directory), str(self._log_path), str(self._directory.cwd()), modules)

    def nothing(self) -> None:
        pass

    def two(self, first: Text, second: Text) -> None:
        pass

    def standard_input(self) -> bytes:
        return os.read(0, 10)

    def inherited_variables(self) -> dict[str, str]:
        return dict(os.environ)

    def print_and_read_back(self, argument: Text) -> str:
        start = log.current_offset(self._log_path)
        print(argument.text)
        return log.read_slice(self._log_path, start)

    def start_grandchild(self) -> int:
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid

    def start_detached_grandchild(self) -> int:
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        return subprocess.Popen(command, start_new_session=True).pid

    def annotated_for_readers(self, argument: Text) -> Path | None:
        return None if argument.text else self._directory

    def _hidden(self) -> int:
        return 1


class Failing(Obedient):
    def build(self) -> None:
        raise BuildError("the stage failed", remedy="take another", log_tail="line 1\nline 2")

    def unknown_class(self) -> None:
        raise HomeMadeError("no device", remedy="plug it in")

    def foreign(self, argument: Text) -> None:
        os.write(2, b"native words\n")
        raise ZeroDivisionError("\udcff " + argument.text)

    def unencodable(self) -> object:
        return self

    def another_type(self) -> str:
        return "no number"

    def too_large(self) -> bytes:
        wire.MAX_FRAME_BYTES = 500
        return bytes(1000)


class Crashing(Obedient):
    def read_null(self) -> None:
        faulthandler._read_null()  # type: ignore[attr-defined]

    def abort(self) -> None:
        os.write(2, b"terminate called after throwing an instance of 'Ort::Exception'\n")
        os.abort()

    def leave(self) -> None:
        os._exit(0)

    def stop_python(self) -> None:
        sys.exit(7)


class Hanging(Obedient):
    def hang(self) -> None:
        os.write(1, b"about to hang\n")
        time.sleep(600)

    def ignore_everything(self) -> None:
        if sys.platform != "win32":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        time.sleep(600)


class Noisy(Obedient):
    def flood(self, argument: Payload) -> str:
        for _ in range(5000):
            os.write(1, argument.data)
        return "done"

    def flood_for_ever(self) -> None:
        while True:
            os.write(1, b"all work and no play\n" * 5000)

    def garbage(self, argument: Text) -> Text:
        os.write(1, bytes(range(256)))
        os.write(2, wire.PREAMBLE + b"WML\x01\xff\xff\xff\xff\n")
        print("\ud83d not text")
        return argument

    def write_everywhere(self, argument: Payload) -> None:
        for fd in _foreign_descriptors():
            with contextlib.suppress(OSError):
                os.write(fd, argument.data)

    def close_everything(self) -> None:
        for fd in _foreign_descriptors():
            with contextlib.suppress(OSError):
                os.close(fd)
        time.sleep(600)


class Unwilling:
    def __init__(self, directory: Path, log_path: Path) -> None:
        raise TargetAbsent("no such device", remedy="buy one")


class SlowStart(Obedient):
    def __init__(self, directory: Path, log_path: Path) -> None:
        super().__init__(directory, log_path)
        time.sleep(600)


class CrashingStart(Obedient):
    def __init__(self, directory: Path, log_path: Path) -> None:
        os.write(2, b"loading the library\n")
        os._exit(3)


class Closing(Obedient):
    def close(self) -> None:
        (self._directory / "closed").write_text("in order", encoding="utf-8")


class ClosingForEver(Obedient):
    def close(self) -> None:
        time.sleep(600)


def _foreign_descriptors() -> Iterator[int]:
    """Downwards: on Windows, touching the requests stops whoever does it until the thread that reads them is done."""
    return iter(range(31, 2, -1))
