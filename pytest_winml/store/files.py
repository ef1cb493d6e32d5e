"""Writing files so that a reader sees the old content or the new, never a part."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Iterable


def write_atomically(path: Path, content: bytes) -> None:
    """Through a temporary file in the same folder, flushed to the disk before it takes the name."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InfrastructureError(
            f"{path} cannot be written ({error})", remedy="check space and permissions."
        ) from error


def sha256_of(paths: Iterable[Path]) -> str:
    """One digest over the content of files, in the order given."""
    import hashlib

    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
