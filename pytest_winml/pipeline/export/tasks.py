"""From a task and an architecture to the model class of transformers and the ONNX config of Optimum."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from pytest_winml.errors import BuildError

LIBRARY = "transformers"  # never inferred: Optimum would ask the hub
_WITH_CACHE = "-with-past"


def resolve(model_type: str, task: str) -> str:
    """The task by the name Optimum has it for this architecture; a `BuildError` says which tasks there are."""
    from optimum.exporters.onnx import model_configs  # noqa: F401 - fills the tables of TasksManager
    from optimum.exporters.tasks import TasksManager

    try:
        tasks = TasksManager.get_supported_tasks_for_model_type(model_type, "onnx", library_name=LIBRARY)
    except KeyError:
        raise BuildError(
            f"Optimum has no ONNX config for the architecture {model_type!r} (task {task!r})",
            remedy="export it yourself and use Model.onnx(path).",
        ) from None
    if task.endswith(_WITH_CACHE):
        raise BuildError(
            f"{model_type} for {task!r} needs a key/value cache that grows, and exports have fixed shapes",
            remedy=f"leave {_WITH_CACHE!r} out of the task.",
        )
    for name in (task, TasksManager.map_from_synonym(task)):
        if name in tasks:
            return name
    supported = sorted(name for name in tasks if not name.endswith(_WITH_CACHE))
    near = get_close_matches(task, supported, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise BuildError(
        f"the architecture {model_type!r} has no export for the task {task!r}",
        remedy=f"{hint}It has {', '.join(supported)}.",
    )


def model_class(model_type: str, task: str) -> Any:
    """The auto class that loads this architecture for a resolved task."""
    from optimum.exporters.tasks import TasksManager

    return TasksManager.get_model_class_for_task(task, "pt", model_type=model_type, library=LIBRARY)


def onnx_config(model: Any, task: str, int_dtype: str) -> Any:
    """What goes in and out of the model for a resolved task, and how it must be patched to be traced."""
    from optimum.exporters.tasks import TasksManager

    constructor = TasksManager.get_exporter_config_constructor("onnx", model=model, task=task, library_name=LIBRARY)
    return constructor(model.config, int_dtype=int_dtype, float_dtype="fp32")
