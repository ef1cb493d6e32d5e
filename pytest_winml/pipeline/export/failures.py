"""Foreign exceptions as ours: what was being done, and the root cause in one line."""

from __future__ import annotations

import contextlib
import errno
import importlib
from typing import TYPE_CHECKING

from pytest_winml.errors import InfrastructureError, WinmlError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_LINE = 400
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS} if hasattr(errno, "EDQUOT") else {errno.ENOSPC, errno.EROFS}
_OUT_OF_MEMORY = ("not enough memory", "can't allocate memory", "cannot allocate memory", "bad allocation")


def require(*modules: str) -> None:
    """What exporting needs is an extra: where it is missing, that is no fault of a model."""
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError as error:
        raise InfrastructureError(
            f"exporting a Hugging Face model needs torch, transformers, optimum-onnx and ONNX Runtime ({error})",
            remedy='pip install "pytest-winml[cpu,hf]"; there is no torch for Windows on arm64.',
        ) from error


@contextlib.contextmanager
def told_as(kind: type[WinmlError], what: str, remedy: str | None = None) -> Iterator[None]:
    """Anything raised inside becomes `kind`, except trouble with memory or disk, which says nothing of a model."""
    try:
        yield
    except WinmlError:
        raise
    except Exception as error:
        cause = root_cause(error)
        if trouble := _of_the_machine(error) or _of_the_machine(cause):
            raise InfrastructureError(
                f"{what}: {trouble} ({one_line(cause)})", remedy="free some of it, or build on a larger machine."
            ) from error
        raise kind(f"{what}: {one_line(cause)}", remedy=remedy) from error


def root_cause(error: BaseException) -> BaseException:
    """The exception at the bottom: exporters wrap it several times, each with a page of advice."""
    seen = {id(error)}
    while (below := error.__cause__ or (None if error.__suppress_context__ else error.__context__)) is not None:
        if id(below) in seen:
            break
        seen.add(id(below))
        error = below
    return error


def one_line(error: BaseException) -> str:
    """Type and first line that says something, with what it announces; cut where it gets long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = " ".join(lines[:2]) if lines and lines[0].endswith(":") else "".join(lines[:1])
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return text if len(text) <= _MAX_LINE else text[: _MAX_LINE - 1] + "…"


def _of_the_machine(error: BaseException) -> str | None:
    if isinstance(error, OSError) and error.errno in _DISK:
        return "the disk is full or read-only"
    if isinstance(error, MemoryError) or any(words in str(error).lower() for words in _OUT_OF_MEMORY):
        return "memory ran out"
    return None
