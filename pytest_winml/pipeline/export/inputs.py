"""Fixed sizes and value ranges of a part's inputs: from the user, the preprocessor, the config, in this order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pytest_winml.data.random_inputs import random_feeds
from pytest_winml.errors import BuildError, ModelError, unknown_name
from pytest_winml.records.artifact import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_winml.pipeline.export.parts import Inlet, Part

TEXT_LENGTH = 128  # where neither the user nor the model's positions say less
IMAGE_SIZE = 224
IMAGE_RANGE = (-2.0, 2.0)  # of pixels after the usual normalisation, where no preprocessor says which
FEATURE_RANGE = (-1.0, 1.0)  # log-mel features as speech models scale them
_CHOICES = 4

_BATCH, _TEXT = "batch_size", "sequence_length"
_TOKEN_INPUTS = frozenset(
    {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
    | {"decoder_input_ids", "decoder_attention_mask", "encoder_attention_mask"}
)
_MASKS = frozenset({"attention_mask", "decoder_attention_mask", "encoder_attention_mask", "pixel_mask"})


class InputPlan:
    """Sizes by the names Optimum gives them, so that a length given for one input holds for all that share it."""

    def __init__(self, part: Part, preprocessor: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
        self._part = part
        self._config = part.onnx_config._config  # noqa: SLF001 - the config the ONNX config was made from
        self._preprocessor = preprocessor
        self._shapes = shapes
        self._layouts = {inlet.name: _layout(inlet, self._config) for inlet in part.inlets}
        self._states_range = (0.0, 0.0)
        self._sizes = self._default_sizes()
        self._sizes |= self._given_sizes()
        self._check_positions()

    def specs(self, int_dtype: str) -> tuple[TensorSpec, ...]:
        """One per input, in the order of the graph."""
        return tuple(self._spec(inlet, int_dtype) for inlet in self._part.inlets)

    def _default_sizes(self) -> dict[str, int]:
        height, width = image_size(self._preprocessor, self._config)
        channels = setting(self._config, "num_channels", "vision_config", "encoder") or 3
        sizes = {"num_channels": channels, "height": height, "width": width, "num_choices": _CHOICES}
        if is_whisper(self._config):
            # Windows of one length: twice the positions, since a convolution halves them.
            sizes |= {"mel_bins": self._config.num_mel_bins, "frames": 2 * self._config.max_source_positions}
        length = min(TEXT_LENGTH, position_limit(self._part.model, self._config) or TEXT_LENGTH)
        for axis in {axis for layout in self._layouts.values() for axis in layout or ()}:
            if axis.endswith(_BATCH):
                sizes[axis] = 1
            elif axis.endswith(_TEXT):
                sizes[axis] = length
        return sizes | self._encoder_sizes()

    def _encoder_sizes(self) -> dict[str, int]:
        """What the encoder makes of random inputs says how large its states are, and in which range."""
        if self._part.encoder is None:
            return {}
        import torch

        with torch.no_grad():
            specs = InputPlan(self._part.encoder, self._preprocessor, {}).specs("int64")
            states = self._part.encoder.plain_outputs(tensors(random_feeds(specs)))["last_hidden_state"]
        self._states_range = float(states.min()), float(states.max())
        return {"encoder_sequence_length": states.shape[1], "encoder_width": states.shape[2]}

    def _given_sizes(self) -> dict[str, int]:
        given: dict[str, int] = {}
        for name, shape in self._shapes.items():
            if name not in self._layouts:
                problem = unknown_name("input", name, self._layouts)
                raise ModelError(f"{problem.message} in shapes=", remedy=problem.remedy)
            layout = self._layouts[name]
            if layout is None:
                continue  # the shape is used as it is
            if len(layout) != len(shape):
                raise ModelError(f"input {name!r} has {len(layout)} dimensions ({', '.join(layout)}), not {shape}")
            for axis, size in zip(layout, shape, strict=True):
                if given.setdefault(axis, size) != size:
                    raise ModelError(f"shapes= gives {axis} two values, {given[axis]} and {size}")
        return given

    def _spec(self, inlet: Inlet, int_dtype: str) -> TensorSpec:
        layout = self._layouts[inlet.name]
        if layout is None:
            return self._like_optimums(inlet, int_dtype)
        shape = tuple(self._sizes[axis] for axis in layout)
        low, high = self._range(inlet.parameter, shape)
        dtype = int_dtype if inlet.parameter in _TOKEN_INPUTS else "float32"
        return TensorSpec(name=inlet.name, dtype=dtype, shape=shape, low=low, high=high)

    def _range(self, parameter: str, shape: tuple[int, ...]) -> tuple[float, float]:
        if parameter in _MASKS:
            return 1, 1  # nothing padded: random holes would leave little of a sentence
        if parameter in _TOKEN_INPUTS:
            return 0, self._distinct(parameter, shape[-1]) - 1
        if parameter == "pixel_values":
            return pixel_range(self._preprocessor)
        return self._states_range if parameter == "encoder_outputs" else FEATURE_RANGE

    def _distinct(self, parameter: str, length: int) -> int:
        """How many different ids there are."""
        if parameter == "position_ids":
            return length
        if parameter == "token_type_ids":
            return setting(self._config, "type_vocab_size", "text_config", "encoder") or 1
        where = "decoder" if parameter == "decoder_input_ids" else "encoder"
        vocabulary = setting(self._config, "vocab_size", "text_config", where)
        if not vocabulary:
            raise BuildError(f"the config of {type(self._part.model).__name__} does not say its vocab_size")
        return int(vocabulary)

    def _like_optimums(self, inlet: Inlet, int_dtype: str) -> TensorSpec:
        """Inputs of rarer kinds: rank, type and range of the example that Optimum makes up."""
        sizes = {"batch_size": 1, "sequence_length": TEXT_LENGTH} | self._sizes
        example = self._part.onnx_config.generate_dummy_inputs(framework="pt", **sizes).get(inlet.parameter)
        if not hasattr(example, "shape"):
            raise BuildError(
                f"input {inlet.name!r} of {type(self._part.model).__name__} is not a tensor",
                remedy="export it yourself and use Model.onnx(path).",
            )
        shape = self._shapes.get(inlet.name, tuple(example.shape))
        if len(shape) != example.dim():
            raise ModelError(
                f"input {inlet.name!r} has {example.dim()} dimensions, {tuple(example.shape)}, not {shape}"
            )
        dtype = str(example.dtype).removeprefix("torch.")
        # A whole number on either side of what was made up: the example itself is random, its range is not.
        low, high = (1.0, 1.0) if inlet.name in _MASKS else (math.floor(example.min()), math.ceil(example.max()))
        dtype = int_dtype if dtype.startswith("int") else dtype
        return TensorSpec(name=inlet.name, dtype=dtype, shape=shape, low=low, high=high)

    def _check_positions(self) -> None:
        limit = position_limit(self._part.model, self._config)
        for axis, size in self._sizes.items():
            if limit and axis.endswith(_TEXT) and axis != "encoder_sequence_length" and size > limit:
                name = type(self._part.model).__name__
                raise ModelError(
                    f"a text of {size} tokens is longer than the {limit} positions of {name}",
                    remedy="give its inputs a shorter length in shapes=.",
                )


def tensors(feeds: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    return {name: torch.from_numpy(array) for name, array in feeds.items()}


def integer_inputs(specs: Iterable[TensorSpec]) -> tuple[str, ...]:
    return tuple(spec.name for spec in specs if spec.dtype.startswith("int"))


def masks(specs: Iterable[TensorSpec]) -> tuple[str, ...]:
    return tuple(spec.name for spec in specs if spec.name in _MASKS)


def is_whisper(config: Any) -> bool:
    return bool(config.model_type == "whisper")


def _layout(inlet: Inlet, config: Any) -> tuple[str, ...] | None:
    """The sizes of an input by name, or None where only Optimum's example knows its rank."""
    batch = inlet.axes.get(0, _BATCH)
    match inlet.parameter:
        case "pixel_values":
            return (batch, "num_channels", "height", "width")
        case "input_features" if is_whisper(config):
            return (batch, "mel_bins", "frames")
        case "encoder_outputs":
            return (batch, "encoder_sequence_length", "encoder_width")
        case name if name in _TOKEN_INPUTS and list(inlet.axes) == list(range(len(inlet.axes))):
            return tuple(inlet.axes.values())
    return None


def setting(config: Any, name: str, *within: str) -> Any:
    """A value of a config, or of the first of the configs within it that has one."""
    for holder in (config, *(getattr(config, part, None) for part in within)):
        value = getattr(holder, name, None)
        if value is not None:
            return value
    return None


def position_limit(model: Any, config: Any) -> int | None:
    """How long a text may be. Where padding has a position of its own (RoBERTa), counting starts behind it."""
    import torch

    limits = [
        setting(config, "max_position_embeddings", "text_config", "decoder"),
        setting(config, "max_target_positions", "decoder"),
    ]
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            behind_padding = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - behind_padding)
    known = [limit for limit in limits if isinstance(limit, int) and limit > 0]
    return min(known, default=None)


def image_size(preprocessor: Mapping[str, Any], config: Any) -> tuple[int, int]:
    """(height, width): the crop that goes in, else the resized image, else what the config says."""
    cropped = preprocessor.get("crop_size") if preprocessor.get("do_center_crop", True) else None
    for size in (cropped, preprocessor.get("size"), setting(config, "image_size", "vision_config", "encoder")):
        match size:
            case int():
                return size, size
            case {"height": int(height), "width": int(width)} | [int(height), int(width)]:
                return height, width
            case {"shortest_edge": int(edge), **others} if "longest_edge" not in others:
                return edge, edge
    return IMAGE_SIZE, IMAGE_SIZE


def pixel_range(preprocessor: Mapping[str, Any]) -> tuple[float, float]:
    """Black and white after the preprocessor's normalisation, over all channels."""
    if not preprocessor:
        return IMAGE_RANGE
    mean, std = preprocessor.get("image_mean"), preprocessor.get("image_std")
    if not preprocessor.get("do_normalize", mean is not None) or mean is None or std is None:
        return 0.0, 1.0
    channels = list(zip(_channels(mean), _channels(std), strict=False))
    return min((0 - m) / s for m, s in channels), max((1 - m) / s for m, s in channels)


def _channels(value: Any) -> list[float]:
    return [float(number) for number in value] if isinstance(value, list) else [float(value)]
