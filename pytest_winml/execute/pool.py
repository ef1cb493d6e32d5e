"""Workers by what must not share a process."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pytest_winml import errors
from pytest_winml.execute.worker import ALLOWED_PREFIXES, LOG_LIMIT_BYTES, Worker

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping


class WorkerPool:
    """One worker for each key, such as (EP library, SoC, backend options), each in a directory of its own.

    A worker that died is replaced when it is asked for again, in a new directory: the old one is the evidence. Nothing
    is removed; `directory` belongs to the caller.
    """

    def __init__(
        self,
        directory: Path,
        *,
        log_limit_bytes: int = LOG_LIMIT_BYTES,
        allowed_prefixes: tuple[str, ...] = ALLOWED_PREFIXES,
    ) -> None:
        self._directory = directory
        self._log_limit_bytes = log_limit_bytes
        self._allowed_prefixes = allowed_prefixes
        self._lock = threading.Lock()
        self._workers: dict[Hashable, Worker] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, key: Hashable, service: str, *, environment: Mapping[str, str] | None = None) -> Worker:
        """The worker of `key`, started now if there is none that lives. `environment` is for a worker that starts."""
        with self._lock:
            worker = self._workers.get(key)
            if worker is not None and worker.service != service:
                raise errors.WorkerError(
                    f"the worker for {key!r} serves {worker.service}, not {service}",
                    remedy="make the service a part of the key: a process holds one service.",
                )
            if worker is None or not worker.alive:
                if worker is not None:
                    worker.close()
                worker = self._workers[key] = self._start(service, environment)
            return worker

    def discard(self, key: Hashable) -> None:
        """Close the worker of `key`, if there is one."""
        with self._lock:
            worker = self._workers.pop(key, None)
        if worker is not None:
            worker.close()

    def close(self) -> None:
        """Close all; each one is tried even if another fails or the user interrupts."""
        with self._lock:
            workers = list(self._workers.values())
            self._workers.clear()
        _close_all(workers)

    def _start(self, service: str, environment: Mapping[str, str] | None) -> Worker:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            directory = Path(tempfile.mkdtemp(prefix="worker-", dir=self._directory))
        except OSError as error:
            raise errors.InfrastructureError(f"no directory for a worker in {self._directory}: {error}") from error
        return Worker(
            service,
            directory=directory,
            log_limit_bytes=self._log_limit_bytes,
            allowed_prefixes=self._allowed_prefixes,
            environment=environment,
        )


def _close_all(workers: list[Worker]) -> None:
    if workers:
        try:
            workers[0].close()
        finally:
            _close_all(workers[1:])
