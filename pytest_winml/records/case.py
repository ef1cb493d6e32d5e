"""One question: this model, built by this recipe, on this target."""

from __future__ import annotations

from pytest_winml.records.base import Record
from pytest_winml.records.model import Model
from pytest_winml.records.recipe import Recipe
from pytest_winml.records.target import Target


class CaseRef(Record, frozen=True, kw_only=True):
    """A case as reports keep it: plain data, also for models made by a function."""

    id: str
    model: str
    source: str
    recipe: Recipe
    target: Target


class Case(Record, frozen=True, kw_only=True):
    model: Model
    recipe: Recipe
    target: Target

    @property
    def id(self) -> str:
        return f"{self.model.id}-{self.recipe.id}-{self.target.id}"

    @property
    def ref(self) -> CaseRef:
        return CaseRef(
            id=self.id,
            model=self.model.name,
            source=f"{self.model.kind}:{self.model.shown_source}",
            recipe=self.recipe,
            target=self.target,
        )
