from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# A machine that is busy, or Wine, is slow at drawing examples too: that is no fault of a test.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(scope="session", autouse=True)
def _a_store_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Runs that tests start share one store and its locks, and they are not the user's."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTEST_WINML_LOCKS", str(tmp_path_factory.mktemp("locks")))  # whoever times here is not waited for
    patch.setenv("PYTEST_ADDOPTS", f'--winml-store="{tmp_path_factory.mktemp("store").as_posix()}"')
