"""Sizes, ranges and the measure of agreement: numbers only, no model."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_winml.errors import BuildError
from pytest_winml.pipeline.export.agreement import Agreement, agreement, compare
from pytest_winml.pipeline.export.inputs import IMAGE_RANGE, image_size, pixel_range, setting

NO_CONFIG = SimpleNamespace()


@pytest.mark.parametrize(
    ("preprocessor", "config", "expected"),
    [
        ({}, NO_CONFIG, (224, 224)),
        ({}, SimpleNamespace(image_size=256), (256, 256)),
        ({}, SimpleNamespace(image_size=[64, 96]), (64, 96)),
        ({}, SimpleNamespace(vision_config=SimpleNamespace(image_size=336)), (336, 336)),
        ({"size": 192}, SimpleNamespace(image_size=256), (192, 192)),
        ({"size": {"height": 384, "width": 512}}, NO_CONFIG, (384, 512)),
        ({"size": {"shortest_edge": 288}}, NO_CONFIG, (288, 288)),
        ({"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}}, NO_CONFIG, (224, 224)),
        ({"size": 256, "crop_size": 224, "do_center_crop": False}, NO_CONFIG, (256, 256)),
        ({"size": {"shortest_edge": 800, "longest_edge": 1333}}, SimpleNamespace(image_size=640), (640, 640)),
    ],
)
def test_the_image_that_goes_in_has_the_size_of_the_crop_else_of_the_resize_else_of_the_config(
    preprocessor: dict[str, Any], config: Any, expected: tuple[int, int]
) -> None:
    assert image_size(preprocessor, config) == expected


@pytest.mark.parametrize(
    ("preprocessor", "expected"),
    [
        ({}, IMAGE_RANGE),
        ({"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}, (-1.0, 1.0)),
        ({"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}, (-0.485 / 0.229, 0.594 / 0.225)),
        ({"image_mean": 0.5, "image_std": 0.25}, (-2.0, 2.0)),
        ({"do_normalize": False, "image_mean": [0.5], "image_std": [0.5]}, (0.0, 1.0)),
        ({"size": 256}, (0.0, 1.0)),
    ],
)
def test_pixels_range_from_black_to_white_as_the_preprocessor_maps_them(
    preprocessor: dict[str, Any], expected: tuple[float, float]
) -> None:
    assert pixel_range(preprocessor) == pytest.approx(expected)


def test_a_setting_of_the_config_itself_comes_before_those_within() -> None:
    config = SimpleNamespace(a=1, text_config=SimpleNamespace(a=2, b=3), encoder=SimpleNamespace(b=4))

    assert [setting(config, name, "text_config", "encoder") for name in ("a", "b", "c")] == [1, 3, None]


def test_agreement_is_what_its_formulas_say() -> None:
    generator = np.random.default_rng(3)
    reference = generator.standard_normal((2, 5, 3)).astype(np.float32)
    candidate = reference + generator.standard_normal(reference.shape).astype(np.float32) * 0.01

    found = agreement(reference, candidate)

    pairs = [(float(r), float(x)) for r, x in zip(reference.ravel(), candidate.ravel(), strict=True)]
    dot, left, right = (sum(values) for values in zip(*((r * x, r * r, x * x) for r, x in pairs), strict=True))
    assert found.cosine == pytest.approx(dot / math.sqrt(left * right), abs=1e-12)
    assert found.max_abs == pytest.approx(max(abs(r - x) for r, x in pairs))
    assert found.rms == pytest.approx(math.sqrt(left / len(pairs)))


@pytest.mark.parametrize(
    ("reference", "candidate", "expected"),
    [
        ([0.0, 0.0], [0.0, 0.0], Agreement(1.0, 0.0, 0.0)),
        ([0.0, 0.0], [0.0, 2.0], Agreement(0.0, 2.0, 0.0)),
        ([2.0, 0.0], [0.0, 0.0], Agreement(0.0, 2.0, math.sqrt(2))),
        ([1.0], [math.nan], Agreement(0.0, math.inf, 1.0)),
        ([], [], Agreement(1.0, 0.0, 0.0)),
        ([3, 4], [3, 4], Agreement(1.0, 0.0, math.sqrt(12.5))),
    ],
)
def test_agreement_at_its_edges(reference: list[float], candidate: list[float], expected: Agreement) -> None:
    found = agreement(np.array(reference), np.array(candidate))

    assert (found.cosine, found.max_abs, found.rms) == pytest.approx((expected.cosine, expected.max_abs, expected.rms))


def test_large_values_do_not_overflow() -> None:
    huge = np.full(4, 6e4, np.float16)

    assert agreement(huge, huge).holds


def test_the_worst_of_several_inputs_is_kept() -> None:
    one, same = {"y": np.array([1.0, 2.0])}, {"y": np.array([1.0, 2.0])}
    other, close = {"y": np.array([2.0, 1.0])}, {"y": np.array([2.0, 1.0001])}

    worst = compare("it", [(one, same), (other, close)])

    assert worst["y"].max_abs == pytest.approx(1e-4)
    assert worst["y"].cosine < 1


@pytest.mark.parametrize("factor", [1.01, -1.0])
def test_a_disagreement_names_output_and_numbers(factor: float) -> None:
    reference = np.array([1.0, -2.0, 3.0])

    with pytest.raises(BuildError, match=r"it: .* disagree on 'y': cosine .* largest difference"):
        compare("it", [({"y": reference}, {"y": reference * factor})])


def test_another_shape_is_a_disagreement() -> None:
    with pytest.raises(BuildError, match=r"'y' has shape \(1, 3\), PyTorch gives \(3,\)"):
        compare("it", [({"y": np.zeros(3)}, {"y": np.zeros((1, 3))})])
