"""A Kubeflow pipeline without TFX: turns trips in CSV into records for training.

    penstock compile ingest --image IMAGE --out ingest.yaml
    penstock compile verify --image IMAGE --out verify.yaml
    penstock compile pack --image IMAGE --out pack.yaml
    python plain_pipeline.py --out plain.yaml

This script needs only kfp. The output `packed` is a Dataset like any other: pass it to a task of
your own.
"""

import argparse
from pathlib import Path
from typing import Any

from kfp import compiler, components, dsl


def make_pipeline(folder: Path) -> Any:
    """Returns the pipeline of the three components in `folder`."""
    ingest, verify, pack = (
        components.load_component_from_file(str(folder / f"{name}.yaml"))
        for name in ("ingest", "verify", "pack")
    )

    @dsl.pipeline(name="pack-trips", description="Trips to checked records to train on.")
    def pack_trips(trips: str) -> None:
        data = dsl.importer(artifact_uri=trips, artifact_class=dsl.Dataset, reimport=False)
        shards = ingest(
            data=data.output,
            arguments=["--split", "train=9", "--split", "eval=1", "--on-bad-row", "quarantine"],
        )
        checked = verify(examples=shards.outputs["examples"])
        packed = pack(examples=shards.outputs["examples"], arguments=["--split", "train"]).after(
            checked
        )
        for task in (shards, checked, packed):
            task.set_cpu_request("1").set_cpu_limit("2")
            task.set_memory_request("1Gi").set_memory_limit("4Gi")

    return pack_trips


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--components", type=Path, default=Path(), help="folder of the three files")
    parser.add_argument("--out", required=True, help="file to write, .yaml")
    args = parser.parse_args()
    compiler.Compiler().compile(make_pipeline(args.components), args.out)


if __name__ == "__main__":
    main()
