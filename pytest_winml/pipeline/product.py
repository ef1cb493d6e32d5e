"""What a build has in hand between two stages."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytest_winml.records.artifact import Artifact, Provenance, StageRun
from pytest_winml.records.base import Record
from pytest_winml.records.build import ModelDescription
from pytest_winml.records.stages import MODEL_FILE, StageAnswer

if TYPE_CHECKING:
    from pytest_winml.errors import WinmlError
    from pytest_winml.store.artifacts import Built
    from pytest_winml.store.entries import Entry


class Stage(Enum):
    """A stage's word in keys and reports, its method in the worker, and the version of what our code does there.

    A version is raised when the same request would give another result; the reasons:
    import 1, export 1, optimize 1, quantize 1, compile 1: first.
    import 2, optimize 2, quantize 2, compile 2: a tensor without a shape in the file is described as such.
    optimize 3: a power that is no square is not fused into a LayerNormalization.
    """

    IMPORT = ("import", "import_model", 2)
    EXPORT = ("export", "export", 1)
    OPTIMIZE = ("optimize", "optimize", 3)
    QUANTIZE = ("quantize", "quantize", 2)
    COMPILE = ("compile", "compile", 2)

    def __init__(self, word: str, method: str, version: int) -> None:
        self.word = word
        self.method = method
        self.version = version


class Product(Record, frozen=True, kw_only=True):
    """A model file with its content digest, what it says of itself, and the stages behind it."""

    path: Path
    digest: str
    description: ModelDescription
    size_bytes: int
    runs: tuple[StageRun, ...] = ()
    keys: tuple[str, ...] = ()

    def then(self, built: Built, stage: Stage) -> Product:
        """The product after a stage; the file's value ranges and the history go on."""
        entry = built.entry
        answer = msgspec.convert(entry.answer["answer"], StageAnswer)
        run = StageRun(
            stage=stage.word,
            key=entry.key,
            reused=built.reused,
            elapsed_s=entry.elapsed_s,
            no_op=answer.no_op,
            did_not_fire=_did_not_fire(answer),
        )
        description = msgspec.convert(entry.answer["description"], ModelDescription)
        if stage is Stage.COMPILE:  # a context hides the graph inside it, and with it the precision
            description = msgspec.structs.replace(description, precision=self.precision)
        return Product(
            path=entry.folder / MODEL_FILE,
            digest=entry.content_digest,
            description=description,
            size_bytes=sum(file.size_bytes for file in entry.files),
            runs=(*self.runs, run),
            keys=(entry.key,),
        )

    @property
    def precision(self) -> str:
        return self.description.precision


def _did_not_fire(answer: StageAnswer) -> dict[str, str]:
    names, reasons = answer.facts.get("did_not_fire"), answer.facts.get("cannot_fire")
    known = reasons if isinstance(reasons, dict) else {}
    return {name: str(known.get(name, "")) for name in names} if isinstance(names, list) else {}


def entry_as_artifact(entry: Entry) -> Artifact | None:
    """An entry by itself, without the stages before it; None for one that holds no model."""
    if "description" not in entry.answer:
        return None
    description = msgspec.convert(entry.answer["description"], ModelDescription)
    return Artifact(
        path=entry.folder / MODEL_FILE,
        key=entry.content_digest[:16],
        provenance=Provenance(
            source=f"store:{entry.key}",
            stages=(entry.record.ingredients.stage,),
            precision=description.precision,
            opset=description.opset,
            sha256=entry.content_digest,
            size_bytes=sum(file.size_bytes for file in entry.files),
        ),
        io=description.io,
    )


def at_stage(error: WinmlError, model: str, stage: str) -> WinmlError:
    """The same error, saying which model and stage it came out of."""
    located = type(error)(f"{model}, stage {stage}: {error.message}", remedy=error.remedy, log_tail=error.log_tail)
    located.stage = stage
    return located
