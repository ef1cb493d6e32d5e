"""Running one case: is the target usable, build, place, open. What was learnt on the way is kept for the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_winml.data.random_inputs import random_feeds
from pytest_winml.errors import ModelError, ProviderUnavailable, TargetAbsent, TargetBroken

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from pytest_winml.pipeline.pipeline import Pipeline
    from pytest_winml.records.artifact import Artifact
    from pytest_winml.records.case import Case
    from pytest_winml.records.machine import Availability
    from pytest_winml.records.placement import Placement
    from pytest_winml.records.target import Target
    from pytest_winml.session.machine import Machine, OpenSession
    from pytest_winml.session.messages import ProviderSettings
    from pytest_winml.session.monitoring import MonitorOptions


class CaseRunner:
    """Each stage runs once and is remembered; a stage that fails raises and leaves nothing behind."""

    def __init__(self, case: Case, machine: Machine, pipeline: Pipeline) -> None:
        self.case = case
        self._machine = machine
        self._pipeline = pipeline
        self.availability: Availability | None = None
        self.built: Artifact | None = None
        self.placed: Placement | None = None

    def check_target(self) -> Availability:
        if self.availability is None or not self.availability.usable:
            self.availability = self._machine.availability(self.case.target)
        return self.availability

    def resolved_target(self) -> Target:
        answer = self.check_target()
        if answer.resolved is None or not answer.usable:
            raise unavailable(answer)
        return self.case.target.resolved_to(answer.resolved)

    def artifact(self) -> Artifact:
        if self.built is None:
            self.built = self._pipeline.build(self._buildable())
        return self.built

    def _buildable(self) -> Case:
        if self.case.target.ep is not None:
            return self.case
        return msgspec.structs.replace(self.case, target=self.resolved_target())

    def placement(self) -> Placement:
        if self.placed is None:
            with self._open():
                pass
        assert self.placed is not None  # noqa: S101 - opening a session places it
        return self.placed

    def open(self) -> OpenSession:
        """A session that has at least one node on its target, or `NotOnTarget`."""
        return self._open().require_target()

    def _open(self) -> OpenSession:
        target = self.resolved_target()
        session = self._machine.open(target, self.artifact().path)
        self.placed = session.placement
        return session

    def open_with(self, target: Target, artifact: Artifact, monitor: MonitorOptions) -> OpenSession:
        """A session of this or another file with a monitor's options; it may hold nothing on its target."""
        session = self._machine.open(target, artifact.path, monitor)
        if artifact == self.built:
            self.placed = session.placement
        return session

    @property
    def provider_settings(self) -> ProviderSettings:
        return self._machine.settings

    def beside(self, case: Case) -> CaseRunner:
        """The same for another case, on the same machine and through the same store."""
        return CaseRunner(case, self._machine, self._pipeline)

    def kept(self, key: str) -> Artifact | None:
        """What an earlier run has built under this key of the store, if it is still there."""
        return self._pipeline.kept(key)

    def source_of(self, artifact: Artifact) -> Path | None:
        """The model that a compiled artifact was made from, whose nodes have the names that people know."""
        runs = artifact.provenance.runs
        if len(runs) < 2 or runs[-1].stage != "compile":  # noqa: PLR2004 - the compilation and the stage before it
            return None
        source = self.kept(runs[-2].key)
        return source.path if source is not None else None

    def keep(self) -> str | None:
        """The key by which `kept` gives this case's artifact in a later run."""
        return self._pipeline.keep(self._buildable())

    def feeds_for(self, artifact: Artifact, seed: int = 0) -> Mapping[str, NDArray[Any]]:
        return _made_up(self.case, artifact, seed)

    def feeds(self, seed: int = 0) -> Mapping[str, NDArray[Any]]:
        return _made_up(self.case, self.artifact(), seed)


def _made_up(case: Case, artifact: Artifact, seed: int) -> Mapping[str, NDArray[Any]]:
    try:
        return random_feeds(artifact.io.inputs, seed)
    except ModelError as error:
        raise ModelError(f"{case.id}, inputs of a run: {error.message}", remedy=error.remedy) from error


def unavailable(answer: Availability) -> ProviderUnavailable:
    kind = TargetBroken if answer.mode == "broken" else TargetAbsent
    return kind(answer.reason, remedy=answer.remedy or None)
