from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_winml import errors
from pytest_winml.execute.pool import WorkerPool
from tests.execute.services import Place, Text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OBEDIENT = "tests.execute.services:Obedient"
CRASHING = "tests.execute.services:Crashing"


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[WorkerPool]:
    with WorkerPool(tmp_path / "workers", allowed_prefixes=("tests.execute.",)) as opened:
        yield opened


def test_one_key_is_one_worker_and_another_key_another(pool: WorkerPool) -> None:
    first = pool.get(("qnn", 60), OBEDIENT)
    other = pool.get(("qnn", 87), OBEDIENT)
    assert pool.get(("qnn", 60), OBEDIENT) is first
    places = [worker.call("place", None, Place, timeout_s=60) for worker in (first, other)]
    assert places[0].cwd != places[1].cwd
    assert first.pid != other.pid


def test_nothing_starts_before_it_is_asked_for(pool: WorkerPool, tmp_path: Path) -> None:
    assert not (tmp_path / "workers").exists()


def test_a_dead_worker_is_replaced_and_its_log_stays(pool: WorkerPool) -> None:
    dead = pool.get("key", CRASHING)
    with pytest.raises(errors.WorkerCrashed):
        dead.call("abort", None, type(None), timeout_s=60)
    alive = pool.get("key", CRASHING)
    assert alive is not dead
    assert alive.directory != dead.directory
    assert alive.call("echo", Text("again"), Text, timeout_s=60) == Text("again")
    assert b"terminate called" in dead.log_path.read_bytes()


def test_a_key_serves_one_service(pool: WorkerPool) -> None:
    pool.get("key", OBEDIENT)
    with pytest.raises(errors.WorkerError, match=r"serves tests\.execute\.services:Obedient, not"):
        pool.get("key", CRASHING)


def test_a_discarded_worker_ends_and_the_next_one_is_new(pool: WorkerPool) -> None:
    first = pool.get("key", OBEDIENT)
    first.call("echo", Text("x"), Text, timeout_s=60)
    pool.discard("key")
    pool.discard("no such key")
    assert not first.alive
    assert pool.get("key", CRASHING) is not first


def test_closing_ends_all(tmp_path: Path) -> None:
    with WorkerPool(tmp_path, allowed_prefixes=("tests.execute.",)) as pool:
        workers = [pool.get(key, OBEDIENT, environment={"A": str(key)}) for key in range(2)]
        variables = [worker.call("inherited_variables", None, dict[str, str], timeout_s=60) for worker in workers]
    assert [found["A"] for found in variables] == ["0", "1"]
    assert not any(worker.alive for worker in workers)


def test_a_directory_that_cannot_be_made_is_trouble_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with WorkerPool(tmp_path / "file") as pool, pytest.raises(errors.InfrastructureError, match="no directory"):
        pool.get("key", OBEDIENT)
