from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_winml.execute.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


class StartWorker(Protocol):
    def __call__(
        self,
        service: str,
        *,
        directory: Path | None = None,
        log_limit_bytes: int = ...,
        environment: Mapping[str, str] | None = None,
    ) -> Worker: ...


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartWorker]:
    """Start a worker with one of the services beside this file; all are closed after the test."""
    with contextlib.ExitStack() as stack:
        count = 0

        def start_worker(
            service: str,
            *,
            directory: Path | None = None,
            log_limit_bytes: int = 64 * 1024**2,
            environment: Mapping[str, str] | None = None,
        ) -> Worker:
            nonlocal count
            count += 1
            worker = Worker(
                f"tests.execute.services:{service}",
                directory=directory or tmp_path / f"worker {count}",
                allowed_prefixes=("tests.execute.",),
                log_limit_bytes=log_limit_bytes,
                environment=environment,
            )
            stack.callback(worker.close)
            return worker

        yield start_worker
