"""A Kubeflow pipeline that knows no TFX: trips from CSV to shards that are fit to train on.

    penstock compile ingest --image IMAGE --out ingest.yaml
    penstock compile validate --image IMAGE --out validate.yaml
    python plain_pipeline.py --out plain.yaml

Needs kfp alone. `examples` is a Dataset like any other: give it to a task of your own.
"""

import argparse
from pathlib import Path
from typing import Any

from kfp import compiler, components, dsl


def make_pipeline(folder: Path) -> Any:
    """The pipeline, with the components that lie in `folder`."""
    ingest = components.load_component_from_file(str(folder / "ingest.yaml"))
    validate = components.load_component_from_file(str(folder / "validate.yaml"))

    @dsl.pipeline(name="check-trips", description="Trips to shards that are fit to train on.")
    def check_trips(trips: str, label: str = "tips") -> None:
        data = dsl.importer(artifact_uri=trips, artifact_class=dsl.Dataset, reimport=False)
        shards = ingest(
            data=data.output,
            splits={"train": 9, "eval": 1},
            on_bad_row="quarantine",
        )
        checked = validate(examples=shards.outputs["examples"], label=label)
        for task in (shards, checked):
            task.set_cpu_request("1").set_cpu_limit("2")
            task.set_memory_request("1Gi").set_memory_limit("4Gi")

    return check_trips


def main() -> None:
    """Compile it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--components", type=Path, default=Path(), help="folder of both files")
    parser.add_argument("--out", required=True, help="file to write, .yaml")
    args = parser.parse_args()
    compiler.Compiler().compile(make_pipeline(args.components), args.out)


if __name__ == "__main__":
    main()
