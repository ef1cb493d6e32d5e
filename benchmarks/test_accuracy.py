"""Does the model still read digits on the target? Top-1 on held-out images, through a session on that target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_winml import Model
from pytest_winml.data.digits import held_out

if TYPE_CHECKING:
    from pytest_winml import Winml

DIGITS = [Model.embedded("digits-cnn"), Model.embedded("digits-vit")]


@pytest.mark.winml(models=DIGITS, targets=["cpu", "qnn:npu"])
def test_digits_are_read_on_the_target(winml: Winml) -> None:
    images = held_out()
    with winml.session() as session:
        logits = [session.run({"image": image[None]})["logits"] for image in images.images]
    right = sum(int(scores.argmax()) == label for scores, label in zip(logits, images.labels, strict=True))
    assert right / len(images) > 0.95
