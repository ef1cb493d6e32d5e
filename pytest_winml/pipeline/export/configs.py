"""The transformers config of a model: what its folder says, with what the user sets over it."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import ModelError
from pytest_winml.pipeline.export.failures import told_as

if TYPE_CHECKING:
    from pytest_winml.pipeline.export.source import Source

_LABELS = ("id2label", "label2id")


def build_config(source: Source) -> Any:
    """The config object. A key that the architecture does not have is an error: it would change nothing, silently."""
    from transformers import CONFIG_MAPPING

    kind = source.model_type
    if kind is None:
        raise ModelError(
            f"the config of {source.name!r} has no model_type",
            remedy='say which architecture: config={"model_type": ...}.',
        )
    if kind not in CONFIG_MAPPING:
        near = get_close_matches(str(kind), list(CONFIG_MAPPING.keys()), n=1)
        raise ModelError(
            f"transformers does not know the architecture {kind!r} of {source.name!r}",
            remedy=f"did you mean {near[0]!r}?" if near else "use a model whose architecture is part of transformers.",
        )
    described = source.description.get("model_type", kind)
    if described != kind:
        raise ModelError(
            f"{source.name!r} is a {described!r} model, config= says {kind!r}", remedy="leave model_type out."
        )
    config_class = CONFIG_MAPPING[kind]
    _check_keys(config_class, source.overrides, source)
    with told_as(ModelError, f"the {kind} config of {source.name!r} is not usable", "check the values in config=."):
        return config_class.from_dict(_merged(source.description, source.overrides))


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Configs within a config are merged, any other value is replaced. Labels follow a new `num_labels`."""
    kept = {key: value for key, value in base.items() if not ("num_labels" in over and key in _LABELS)}
    for key, value in over.items():
        within = isinstance(value, dict) and isinstance(kept.get(key), dict) and _is_config(key)
        kept[key] = _merged(kept[key], value) if within else value
    return kept


def _is_config(key: str) -> bool:
    return key.endswith("_config") or key in ("encoder", "decoder")


def _check_keys(config_class: Any, overrides: dict[str, Any], source: Source) -> None:
    from transformers import CONFIG_MAPPING

    known = _known_keys(config_class) | source.description.keys()
    for key, value in overrides.items():
        if key not in known:
            near = get_close_matches(key, sorted(known), n=1)
            raise ModelError(
                f"a {config_class.model_type} config has no {key!r} (in config= of {source.name!r})",
                remedy=f"did you mean {near[0]!r}?" if near else "see the architecture's page in transformers' manual.",
            )
        if isinstance(value, dict) and _is_config(key):
            part = _parts(config_class).get(key)
            if "model_type" in value and value["model_type"] in CONFIG_MAPPING:
                part = CONFIG_MAPPING[value["model_type"]]
            if hasattr(part, "sub_configs"):
                _check_keys(part, value, source)


def _known_keys(config_class: Any) -> set[str]:
    from transformers import PretrainedConfig

    named = set(inspect.signature(config_class.__init__).parameters)
    inherited = {"model_type", "num_labels", *vars(PretrainedConfig()), *config_class.attribute_map}
    return named | inherited | set(_parts(config_class))


def _parts(config_class: Any) -> dict[str, Any]:
    """The configs within a config, by key. Some architectures know them only once they are made."""
    parts = config_class.sub_configs
    return parts if isinstance(parts, dict) else {}
