"""The work of `penstock component`: run one plain component in its container."""

import importlib
from collections.abc import Callable
from typing import cast

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow.executor import ExecutorInput

# By name, the function that does the work, as `module:function`; imported when it is run.
COMPONENTS = {
    "ingest": "penstock.pipelines.kubeflow.plain.ingest:run",
    "validate": "penstock.pipelines.kubeflow.plain.validate:run",
    "pack": "penstock.pipelines.kubeflow.plain.pack:run",
}


def run_component(name: str, executor_input: str) -> None:
    """Run a component on what KFP says.

    Raises:
        UsageError: There is no such component, or a parameter does not fit.
        DataError: The data is bad.
    """
    if name not in COMPONENTS:
        raise UsageError(f"no component {name!r}; choices: {', '.join(COMPONENTS)}")
    module, _, function = COMPONENTS[name].partition(":")
    run = cast(Callable[[ExecutorInput], None], getattr(importlib.import_module(module), function))
    run(ExecutorInput.parse(executor_input))
