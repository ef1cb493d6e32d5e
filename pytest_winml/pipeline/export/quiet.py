"""What torch, transformers and optimum say to their own developers, kept out of ours."""

from __future__ import annotations

import contextlib
import logging
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """No Python warnings and no log lines. What matters of them is raised, or checked and recorded.

    The imports of these libraries warn as well, so they belong inside.
    """
    before = logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(before)
