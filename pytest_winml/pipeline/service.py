"""The worker's side of a build: one instance per process, which runs stages and keeps nothing between them."""

from __future__ import annotations

from pathlib import Path

from pytest_winml.execute.log import current_offset, tail
from pytest_winml.records.base import Record
from pytest_winml.records.build import ModelDescription
from pytest_winml.records.stages import (
    CompileRequest,
    ExportRequest,
    ImportRequest,
    OptimizeRequest,
    QuantizeRequest,
    StageAnswer,
)


class DescribeRequest(Record, frozen=True, kw_only=True):
    model_path: str


class BuildService:
    """Every method names a stage; what a stage needs is imported when it is asked for."""

    def __init__(self, directory: Path, log_path: Path) -> None:
        self._directory = directory
        self._log_path = log_path

    def describe(self, request: DescribeRequest) -> ModelDescription:
        from pytest_winml.pipeline.importing import describe

        return describe(Path(request.model_path))

    def import_model(self, request: ImportRequest) -> StageAnswer:
        from pytest_winml.pipeline.importing import import_model

        return import_model(request)

    def export(self, request: ExportRequest) -> StageAnswer:
        from pytest_winml.pipeline.export import export

        return export(request)

    def optimize(self, request: OptimizeRequest) -> StageAnswer:
        from pytest_winml.pipeline.optimize import optimize

        return optimize(request)

    def quantize(self, request: QuantizeRequest) -> StageAnswer:
        from pytest_winml.pipeline.quantize import quantize

        return quantize(request)

    def compile(self, request: CompileRequest) -> StageAnswer:
        from pytest_winml.pipeline.compile import compile_model

        start = current_offset(self._log_path)
        return compile_model(request, read_log=lambda: tail(self._log_path, start=start))
