"""A conftest that puts the simulator in the place of the device."""

from __future__ import annotations

SIMULATED = """
import os
import pytest_winml.measure.device as device
from pytest_winml.measure.simulated import SimulatedTimedDevice
from pytest_winml.simulator import SimulatedDevice

slowdown = float(os.environ.get("SLOWDOWN", "0"))

class OnTheSimulator(SimulatedTimedDevice):
    def __init__(self, *_, **__):
        simulated = SimulatedDevice("calm", seed=3, slowdown=slowdown, slowdowns={"target": slowdown})
        super().__init__(simulated)

real = device.WorkerDevice
device.WorkerDevice = OnTheSimulator

def pytest_unconfigure():  # a run inside the process of the tests shares its modules
    device.WorkerDevice = real
"""
