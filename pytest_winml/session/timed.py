"""The parent's side of timing: one fresh process for each timed session, which ends with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml.errors import MeasurementError, WorkerError
from pytest_winml.records.target import Target
from pytest_winml.session.machine import worker_key
from pytest_winml.session.timing_messages import TimedRequest, TimedSession

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_winml.execute.pool import WorkerPool
    from pytest_winml.session.messages import ProviderSettings

SERVICE = "pytest_winml.session.timing_service:TimingService"


def can_share_a_process(targets: Iterable[Target], settings: ProviderSettings) -> bool:
    """Whether arms on these targets may be co-resident; others are paired with a canary in a process of their own.

    The CPU EP as it comes is in every process, beside whatever other EP is there.
    """
    plain = worker_key(Target("cpu"), settings)
    return len({worker_key(target, settings) for target in targets} - {plain}) <= 1


def run_timed_session(pool: WorkerPool, request: TimedRequest, timeout_s: float) -> TimedSession:
    """Whatever happens, the process is gone afterwards. Its folder stays in the pool's: the log is the evidence."""
    if not can_share_a_process((arm.target for arm in request.arms), request.settings):
        raise MeasurementError(
            f"{_named(request)} cannot be timed in one process: an EP serves one set of options in each",
            remedy="time each with a canary in a session of its own.",
        )
    key = ("timed session", object())
    try:
        return pool.get(key, SERVICE).call("measure", request, TimedSession, timeout_s=timeout_s)
    except WorkerError as error:
        message = f"timing {_named(request)} came to nothing: {error.message}"
        raise type(error)(message, remedy=error.remedy, log_tail=error.log_tail) from error
    finally:
        pool.discard(key)


def _named(request: TimedRequest) -> str:
    return " and ".join(f"arm {arm.name} ({arm.model_path} on {arm.target.spec})" for arm in request.arms)
