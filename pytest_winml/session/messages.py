"""What the parent and its session worker say to each other: small typed values, no closures, no sessions."""

from __future__ import annotations

import msgspec

from pytest_winml.providers.binding import Emulate
from pytest_winml.records.base import Record
from pytest_winml.records.placement import Placement
from pytest_winml.records.target import Target
from pytest_winml.session.monitoring import MonitorOptions, Span


class ProviderSettings(Record, frozen=True, kw_only=True):
    """The user's choices that decide how a target binds."""

    ep_libraries: dict[str, str] = msgspec.field(default_factory=dict)
    emulate: Emulate = "auto"
    offline: bool = False
    catalog_timeout_s: float = 300.0


class TargetRequest(Record, frozen=True, kw_only=True):
    target: Target
    settings: ProviderSettings


class OpenRequest(Record, frozen=True, kw_only=True):
    target: Target
    settings: ProviderSettings
    model_path: str
    monitor: MonitorOptions = MonitorOptions()


class OpenedSession(Record, frozen=True, kw_only=True):
    """`options` are what the EP was given: the target's own, and those the session adds to prove placement."""

    session_id: int
    placement: Placement
    options: dict[str, str]
    log: str
    watched: dict[str, Span] = msgspec.field(default_factory=dict)


class TensorData(Record, frozen=True, kw_only=True):
    dtype: str
    shape: tuple[int, ...]
    data: bytes


class RunRequest(Record, frozen=True, kw_only=True):
    """`watched` are files whose growth is of interest."""

    session_id: int
    feeds: dict[str, TensorData]
    watched: tuple[str, ...] = ()


class RunAnswer(Record, frozen=True, kw_only=True):
    outputs: dict[str, TensorData]
    elapsed_us: float
    spans: dict[str, Span] = msgspec.field(default_factory=dict)


class SessionRequest(Record, frozen=True, kw_only=True):
    session_id: int
