"""Batch-norm statistics for random weights, so that what comes out is neither zero nor infinite.

An untrained batch norm passes its input through (mean 0, variance 1). Thirty of those over weights of scale 0.02 leave
outputs of about 1e-41, whose signal-to-noise ratio means nothing. Here each layer is given the statistics of what it
sees on seeded random data, as training would have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_PASSES = 3


def reestimate(model: Any, run: Callable[[int], None], seed: int) -> int:
    """Runs `run(seed)` a few times with batch norms in training mode; returns how many batch norms there are.

    In one pass every layer already sees normalised data, since a batch norm in training mode uses the statistics of
    its batch. The average over passes is what stays. One thread: the order of additions, and with it the bytes of the
    model, must not depend on the number of cores.
    """
    import torch

    norms = [module for module in model.modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]  # noqa: SLF001 - the common base of 1-3 dimensions
    norms = [norm for norm in norms if norm.track_running_stats]
    if not norms:
        return 0
    momenta = [norm.momentum for norm in norms]
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # a plain average over all passes
            norm.train()
        with torch.no_grad():
            for number in range(_PASSES):
                run(seed + 1 + number)
    finally:
        torch.set_num_threads(threads)
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
            norm.eval()
    return len(norms)
