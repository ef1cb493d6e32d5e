"""What of a model is exported: all of it, or one component of a composite, with the names of what goes in and out."""

from __future__ import annotations

import contextlib
import functools
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ENCODER_DECODER_TASKS = frozenset(
    {"automatic-speech-recognition", "document-question-answering", "feature-extraction", "image-to-text"}
    | {"text2text-generation", "visual-question-answering"}
)
_ENCODER_OUTPUTS = "encoder_outputs"
_FEATURES = {"image": ("get_image_features", "image_embeds"), "text": ("get_text_features", "text_embeds")}


@dataclass(frozen=True)
class Inlet:
    """One input: the parameter of `forward`, its name in the graph, and Optimum's names of the sizes that may vary."""

    parameter: str
    name: str
    axes: dict[int, str]


@dataclass(frozen=True)
class Part:
    """`inlets` are in the order of forward's parameters: TorchScript gives names out by position, not by keyword.

    `method` is exported in place of `forward`. `encoder` is the part that makes what a decoder reads.
    """

    model: Any
    onnx_config: Any
    inlets: tuple[Inlet, ...]
    outputs: tuple[str, ...]
    method: str | None = None
    encoder: Part | None = None

    @contextlib.contextmanager
    def patched(self) -> Iterator[None]:
        """The model as it can be traced: operators without an ONNX form replaced, `forward` reduced to our inputs.

        An exporter fills parameters it is not given with their defaults, and makes inputs of some. So `forward` has no
        others here, and answers a tuple in the order of the names.
        """
        with self.onnx_config.patch_model_for_export(self.model, model_kwargs={}):
            original = self.model.forward
            inner = original if self.method is None else getattr(self.model, self.method)
            names = [inlet.parameter for inlet in self.inlets]

            def forward(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
                found = self._named(inner(**dict(zip(names, args, strict=False)), **kwargs))
                return tuple(found[name] for name in self.outputs)

            parameter = functools.partial(inspect.Parameter, kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
            forward.__signature__ = inspect.Signature([parameter(name) for name in names])  # type: ignore[attr-defined]
            self.model.forward = forward
            try:
                yield
            finally:
                self.model.forward = original

    def keywords(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Tensors by their names in the graph, as the arguments of `forward`."""
        return {
            inlet.parameter: (tensors[inlet.name],) if inlet.parameter == _ENCODER_OUTPUTS else tensors[inlet.name]
            for inlet in self.inlets
        }

    def plain_outputs(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """What the model answers as it is, unpatched: those of its named outputs that it has under the same name."""
        function = self.model if self.method is None else getattr(self.model, self.method)
        found = self._by_name(function(**self.keywords(tensors)))
        return {name: found[name] for name in self.outputs if name in found}

    def patched_outputs(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """What the model answers while it is patched: every named output."""
        return dict(zip(self.outputs, self.model(**self.keywords(tensors)), strict=True))

    def _named(self, result: Any) -> dict[str, Any]:
        found = self._by_name(result)
        if found.keys() != set(self.outputs):
            raise BuildError(
                f"{type(self.model).__name__} answers {', '.join(found)} where its ONNX config says "
                f"{', '.join(self.outputs)}",
                remedy="choose another task, or export it yourself and use Model.onnx(path).",
            )
        return found

    def _by_name(self, result: Any) -> dict[str, Any]:
        """Tensors by their names in the graph. A bare tensor is the first output; what is no tensor has no name."""
        if not isinstance(result, dict):
            result = {self.outputs[0]: result}
        renames = self.onnx_config.torch_to_onnx_output_map
        return {renames.get(key, key): value for key, value in result.items() if hasattr(value, "shape")}


def choose(model: Any, onnx_config: Any, component: str | None) -> Part:
    """The whole model or the named component; an error lists the components there are."""
    components = _components(model, onnx_config)
    name = type(model).__name__
    if component is not None and component not in components:
        there = f"it has {', '.join(components)}." if components else "it exports as one model: leave component= out."
        raise BuildError(f"{name} has no component {component!r}", remedy=there)
    if component is None:
        if _is_pair(model, onnx_config):
            raise BuildError(
                f"{name} is a composite of {' and '.join(components)}, which are exported one by one",
                remedy=f"choose one: component={components[0]!r}.",
            )
        return _whole(model, onnx_config)
    if component in _FEATURES:
        return _feature(model, onnx_config, component)
    encoder = _whole(model.get_encoder(), onnx_config.with_behavior("encoder"))
    if component == "encoder":
        return encoder
    return _whole(model, onnx_config.with_behavior("decoder", use_past=False), encoder)


def _components(model: Any, onnx_config: Any) -> tuple[str, ...]:
    if _is_pair(model, onnx_config):
        return ("encoder", "decoder")
    if all(hasattr(model, method) for method, _ in _FEATURES.values()):
        return tuple(_FEATURES)
    return ()


def _is_pair(model: Any, onnx_config: Any) -> bool:
    behaves = hasattr(onnx_config, "with_behavior") and onnx_config.task in _ENCODER_DECODER_TASKS
    return behaves and bool(model.config.is_encoder_decoder)


def _whole(model: Any, onnx_config: Any, encoder: Part | None = None) -> Part:
    inlets = _inlets(model.forward, onnx_config, onnx_config.inputs)
    if missing := onnx_config.inputs.keys() - {inlet.parameter for inlet in inlets}:
        raise BuildError(
            f"{type(model).__name__}.forward() does not take {', '.join(sorted(missing))}, which its ONNX config names",
            remedy="export it yourself and use Model.onnx(path).",
        )
    return Part(model, onnx_config, inlets, tuple(onnx_config.outputs), encoder=encoder)


def _feature(model: Any, onnx_config: Any, component: str) -> Part:
    method, output = _FEATURES[component]
    return Part(model, onnx_config, _inlets(getattr(model, method), onnx_config, onnx_config.inputs), (output,), method)


def _inlets(function: Any, onnx_config: Any, inputs: Mapping[str, dict[int, str]]) -> tuple[Inlet, ...]:
    renames = onnx_config.torch_to_onnx_input_map
    return tuple(
        Inlet(parameter, renames.get(parameter, parameter), dict(inputs[parameter]))
        for parameter in inspect.signature(function).parameters
        if parameter in inputs
    )
