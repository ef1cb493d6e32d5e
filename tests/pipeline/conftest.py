from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_winml.execute.pool import WorkerPool
from pytest_winml.pipeline.pipeline import Pipeline
from pytest_winml.session.machine import Machine
from pytest_winml.session.messages import ProviderSettings
from pytest_winml.store.artifacts import ArtifactStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    """Workers shared by the tests, as a run would share them."""
    with WorkerPool(tmp_path_factory.mktemp("workers")) as pool:
        yield pool


@pytest.fixture
def make_pipeline(pool: WorkerPool, tmp_path: Path) -> Callable[[], Pipeline]:
    """A pipeline as a new run would have it, always with the same store; the rootdir is the test's own folder."""

    def make() -> Pipeline:
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        machine = Machine(pool, ProviderSettings(offline=True), timeout_s=120)
        store = ArtifactStore(tmp_path / "store")
        return Pipeline(store, pool, machine, rootdir=tmp_path, scratch=scratch, timeout_s=120, offline=True)

    return make


@pytest.fixture
def pipeline(make_pipeline: Callable[[], Pipeline]) -> Pipeline:
    return make_pipeline()
