"""A Kubeflow pipeline without TFX: turns trips in CSV into records to train on.

    penstock compile ingest --image IMAGE --out ingest.yaml
    penstock compile validate --image IMAGE --out validate.yaml
    penstock compile pack --image IMAGE --out pack.yaml
    python plain_pipeline.py --out plain.yaml

Needs kfp alone. `packed` is a Dataset like any other: give it to a task of your own.
"""

import argparse
from pathlib import Path
from typing import Any

from kfp import compiler, components, dsl


def make_pipeline(folder: Path) -> Any:
    """The pipeline, with the components that lie in `folder`."""
    ingest, validate, pack = (
        components.load_component_from_file(str(folder / f"{name}.yaml"))
        for name in ("ingest", "validate", "pack")
    )

    @dsl.pipeline(name="check-trips", description="Trips to records that are fit to train on.")
    def check_trips(trips: str, limits: dict = {"labels": ["tips"]}) -> None:  # noqa: B006
        data = dsl.importer(artifact_uri=trips, artifact_class=dsl.Dataset, reimport=False)
        shards = ingest(
            data=data.output,
            splits={"train": 9, "eval": 1},
            options={"on_bad_row": "quarantine"},
        )
        checked = validate(examples=shards.outputs["examples"], options=limits)
        packed = pack(examples=shards.outputs["examples"], options={"splits": ["train"]}).after(
            checked
        )
        for task in (shards, checked, packed):
            task.set_cpu_request("1").set_cpu_limit("2")
            task.set_memory_request("1Gi").set_memory_limit("4Gi")

    return check_trips


def main() -> None:
    """Compile it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--components", type=Path, default=Path(), help="folder of the three files")
    parser.add_argument("--out", required=True, help="file to write, .yaml")
    args = parser.parse_args()
    compiler.Compiler().compile(make_pipeline(args.components), args.out)


if __name__ == "__main__":
    main()
