"""A device that is not there: seeded times with the disturbances of real ones, in milliseconds of real time."""

from pytest_winml.simulator.device import SimulatedDevice
from pytest_winml.simulator.regimes import EXTRA_REGIMES, REGIMES, SEVEN, Regime

__all__ = ["EXTRA_REGIMES", "REGIMES", "SEVEN", "Regime", "SimulatedDevice"]
