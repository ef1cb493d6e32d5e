from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_winml.execute.pool import WorkerPool
from pytest_winml.session.machine import Machine
from pytest_winml.session.messages import ProviderSettings

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """This machine, with workers shared by the tests as a run would share them."""
    with WorkerPool(tmp_path_factory.mktemp("workers")) as pool:
        yield Machine(pool, ProviderSettings(offline=True), timeout_s=120)
