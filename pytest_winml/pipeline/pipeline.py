"""From a case to its artifact: source, optimize, quantize, compile, each stage found in the store or built once.

A stage's key is made of the content of what goes in, the options that apply to it and the tools that matter, so eight
targets share one export, and a second run builds nothing.
"""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_winml.errors import BuildError, InfrastructureError, WinmlError
from pytest_winml.pipeline.calibrating import calibration_for
from pytest_winml.pipeline.policy import (
    CALIBRATED_PRECISIONS,
    LEFT_TO_EP,
    as_it_applies,
    policy_for,
    resolve_precision,
)
from pytest_winml.pipeline.product import Product, Stage, at_stage, entry_as_artifact
from pytest_winml.pipeline.service import DescribeRequest
from pytest_winml.pipeline.source import Sources
from pytest_winml.pipeline.tools import cpu_identity, runtime_version, tool_versions
from pytest_winml.records.artifact import Artifact, Provenance, TensorSpec
from pytest_winml.records.build import ModelDescription
from pytest_winml.records.stages import (
    MODEL_FILE,
    CompileRequest,
    ImportRequest,
    OptimizeRequest,
    QuantizeRequest,
    StageAnswer,
)
from pytest_winml.records.store import StageIngredients
from pytest_winml.session.machine import worker_key
from pytest_winml.store.artifacts import Built, stage_key

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pytest_winml.execute.pool import WorkerPool
    from pytest_winml.records.case import Case
    from pytest_winml.records.machine import Availability
    from pytest_winml.records.recipe import Recipe
    from pytest_winml.records.target import Target
    from pytest_winml.session.machine import Machine
    from pytest_winml.store.artifacts import ArtifactStore

_TRIES = 3
SERVICE = "pytest_winml.pipeline.service:BuildService"


class _Damaged(Exception):
    """Something that was taken from the store turned out not to be whole."""


class Pipeline:
    """`on_stage` hears of a stage before it is built, `log` keeps what every stage of this run did."""

    def __init__(
        self,
        store: ArtifactStore,
        pool: WorkerPool,
        machine: Machine,
        *,
        rootdir: Path,
        scratch: Path,
        timeout_s: float,
        offline: bool = False,
        on_stage: Callable[[str, str], None] = lambda model, stage: None,  # noqa: ARG005 - nobody listens
        beside_others: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._store = store
        self._pool = pool
        self._machine = machine
        self._scratch = scratch
        self._timeout_s = timeout_s
        self._on_stage = on_stage
        self._beside_others = beside_others
        self._sources = Sources(self, rootdir=rootdir, scratch=scratch, offline=offline)

    def build(self, case: Case) -> Artifact:
        """The artifact, or an error that names the model and the stage.

        Entries on the way are taken by their record; every byte is checked of what is used: the input of a stage that
        is built, and the artifact at the end. What is damaged is gone then, and the build starts again.
        """
        for _ in range(_TRIES):
            try:
                product = self._build(case)
                self._require_whole(product)
            except _Damaged:
                continue
            return _artifact(case, product)
        raise InfrastructureError(
            f"{case.model.name}: entries of the store {self._store.root} are damaged again as soon as they are built",
            remedy="check the disk, or choose another --winml-store.",
        )

    def keep(self, case: Case) -> str | None:
        """The key by which `kept` gives the case's artifact again; a file that is the user's own is copied for it.

        None for a context that the user brought: it may refer to files that its graph does not name.
        """
        product = self._build(case)
        if not product.keys and product.description.compiled:
            return None
        if not product.keys:
            request = ImportRequest(model_path=str(product.path), shapes={}, output_folder="")
            product = self.stage(case.model.name, Stage.IMPORT, request, product, options={"shapes": {}})
        return product.keys[-1]

    def kept(self, key: str) -> Artifact | None:
        """What was built under this key, if it is still in the store, whole."""
        entry = self._store.get(key)
        return entry_as_artifact(entry) if entry is not None else None

    def _build(self, case: Case) -> Product:
        precision = resolve_precision(case.recipe.precision, case.target)
        compiles = self._compiles(case)
        product = self._sources.take(case)
        product = self._optimize(case, product)
        product = self._quantize(case, product, precision)
        return self._compile(case, product) if compiles and not product.description.compiled else product

    def _require_whole(self, product: Product) -> None:
        if any(self._store.get(key) is None for key in product.keys):
            raise _Damaged

    def _compiles(self, case: Case) -> bool:
        """Decided before anything is built: a recipe that must compile fails here if it cannot."""
        policy, wish = policy_for(case.target), case.recipe.compile
        if wish is False or (wish == "auto" and not policy.compiles_by_default):
            return False
        if not policy.has_ep_context:
            raise BuildError(
                f"{case.model.name}: {case.target.spec} has no EPContext, so compile=True cannot be met",
                remedy='use compile="auto".',
            )
        answer = self._machine.availability(case.target)
        if answer.usable:
            return True
        if wish is True:
            raise BuildError(
                f"{case.model.name}: compile=True needs {case.target.spec}, which is {answer.mode}: {answer.reason}",
                remedy=answer.remedy or 'use compile="auto".',
            )
        return False

    def _optimize(self, case: Case, product: Product) -> Product:
        recipe = case.recipe
        if recipe.optimize == "none" or (recipe.optimize == "default" and product.description.finished):
            return product
        named = recipe.optimize if isinstance(recipe.optimize, tuple) else ()
        from pytest_winml.pipeline.optimizations import OPTIMIZATIONS, resolve_names

        request = OptimizeRequest(
            model_path=str(product.path),
            base="basic",
            preparation=policy_for(case.target).preparation if self._will_quantize(case, product) else None,
            names=resolve_names(named),
            output_folder="",
        )
        options = _options(request)
        if any(OPTIMIZATIONS[name].by_cpu for name in request.names):
            options["cpu"] = cpu_identity()
        return self.stage(case.model.name, Stage.OPTIMIZE, request, product, options=options)

    def _will_quantize(self, case: Case, product: Product) -> bool:
        precision = resolve_precision(case.recipe.precision, case.target)
        return precision in CALIBRATED_PRECISIONS and not product.description.finished

    def _quantize(self, case: Case, product: Product, precision: str) -> Product:
        if precision in ("fp32", LEFT_TO_EP) or product.description.finished:
            return product
        recipe: Recipe = case.recipe
        request = QuantizeRequest(
            model_path=str(product.path),
            precision=precision,  # type: ignore[arg-type]  # the policy answers with these words only
            family=policy_for(case.target).family,
            method=recipe.calibration.method,  # type: ignore[arg-type]  # checked by Calibration
            per_channel=recipe.calibration.per_channel,
            exclude_nodes=recipe.overrides.exclude_nodes,
            tensor_types=recipe.overrides.tensor_types,
            output_folder="",
        )
        options = _options(as_it_applies(request))
        if precision not in CALIBRATED_PRECISIONS:
            return self.stage(case.model.name, Stage.QUANTIZE, request, product, options=options)
        feeds = calibration_for(case, product.description.io.inputs, self._sources.rootdir)

        def with_feeds(given: QuantizeRequest) -> QuantizeRequest:
            return msgspec.structs.replace(given, feeds_path=str(feeds.write(self._scratch)))

        return self.stage(
            case.model.name,
            Stage.QUANTIZE,
            request,
            product,
            options={**options, "calibration": feeds.identity},
            complete=with_feeds,
        )

    def _compile(self, case: Case, product: Product) -> Product:
        answer = self._machine.availability(case.target)
        target = case.target.resolved_to(answer.resolved or case.target.spec)
        request = CompileRequest(
            model_path=str(product.path),
            target=target,
            settings=msgspec.json.encode(self._machine.settings),
            output_folder="",
        )
        return self.stage(
            case.model.name,
            Stage.COMPILE,
            request,
            product,
            options={"embed": request.embed},
            worker=("compile", worker_key(target, self._machine.settings)),
            ep_identity=_ep_identity(target, answer),
        )

    def stage(
        self,
        model: str,
        stage: Stage,
        request: Any,
        before: Product,
        *,
        options: dict[str, Any],
        worker: Hashable = "onnx",
        ep_identity: dict[str, str] | None = None,
        complete: Callable[[Any], Any] = lambda request: request,
    ) -> Product:
        """One stage through the store. `complete` adds to the request what only a real build needs."""
        ingredients = StageIngredients(
            stage=stage.word,
            stage_version=stage.version,
            input_digest=before.digest,
            options=options,
            tools=tool_versions(stage.word),
            ep_identity=ep_identity,
        )

        def make(folder: Path) -> dict[str, Any]:
            self._require_whole(before)
            self._on_stage(model, stage.word)
            asked = complete(msgspec.structs.replace(request, output_folder=str(folder)))
            with self._beside_others():
                answer = self.call(stage.method, asked, StageAnswer, worker=worker)
            if stage is Stage.COMPILE:  # QNN numbers operators over the life of a process: the next gets a new one
                self._pool.discard(("build", worker))
            known = before.description.io
            description = self.describe(folder / MODEL_FILE).with_ranges(
                (*known.inputs, *known.outputs, *answer.inputs, *_output_ranges(answer))
            )
            return {"answer": msgspec.to_builtins(answer), "description": msgspec.to_builtins(description)}

        found = self._store.get(stage_key(ingredients), content=False)
        if found is not None:
            return before.then(Built(found, reused=True), stage)
        try:
            built = self._store.build(ingredients, make, model=model, inputs=before.keys)
        except WinmlError as error:
            raise at_stage(error, model, stage.word) from error
        return before.then(built, stage)

    def call(self, method: str, request: Any, result: Any, *, worker: Hashable = "onnx") -> Any:
        return self._pool.get(("build", worker), SERVICE).call(method, request, result, timeout_s=self._timeout_s)

    def describe(self, path: Path) -> ModelDescription:
        described: ModelDescription = self.call("describe", DescribeRequest(model_path=str(path)), ModelDescription)
        return described

    def close(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)


def _output_ranges(answer: StageAnswer) -> tuple[TensorSpec, ...]:
    """What an export saw come out of the model."""
    lows, highs = answer.facts.get("output_low"), answer.facts.get("output_high")
    if not isinstance(lows, dict) or not isinstance(highs, dict):
        return ()
    return tuple(
        TensorSpec(name=name, dtype="", shape=None, low=float(low), high=float(highs[name]))
        for name, low in lows.items()
        if name in highs
    )


def _options(request: Any) -> dict[str, Any]:
    """What of a request decides the result: all but where the files are."""
    paths = ("model_path", "output_folder", "feeds_path", "settings", "target")
    return {name: value for name, value in msgspec.to_builtins(request).items() if name not in paths}


def _ep_identity(target: Target, answer: Availability) -> dict[str, str]:
    return {
        "target": target.spec,
        "soc": answer.soc or "",
        "ep_version": answer.ep_version or "",
        "runtime": runtime_version(),
        **{f"option {name}": value for name, value in {**target.options, **target.unchecked_options}.items()},
    }


def _artifact(case: Case, product: Product) -> Artifact:
    return Artifact(
        path=product.path,
        key=product.digest[:16],
        provenance=Provenance(
            source=f"{case.model.kind}:{case.model.shown_source}",
            stages=tuple(run.stage for run in product.runs) or ("as it is",),
            precision=product.precision,
            opset=product.description.opset,
            sha256=product.digest,
            size_bytes=product.size_bytes,
            runs=product.runs,
        ),
        io=product.description.io,
    )
