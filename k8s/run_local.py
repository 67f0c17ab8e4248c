"""Runs a compiled pipeline in Docker containers on this machine, by KFP's own local engine.

    pip install "kfp>=2.14" docker
    python k8s/run_local.py taxi.yaml --volume /srv/penstock

Each task is a container without network, as uid 65532, that sees the volume at /penstock,
as a persistent volume claim is mounted on a cluster.
"""

import argparse
import sys
from pathlib import Path

import docker
from kfp import components, local

MOUNT = "/penstock"


def main() -> int:
    """Run the pipeline."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipeline", help="what `penstock compile` wrote")
    parser.add_argument("--volume", type=Path, required=True, help="for uid 65532")
    args = parser.parse_args()
    mount = docker.types.Mount(target=MOUNT, source=str(args.volume.resolve()), type="bind")
    runner = local.DockerRunner(
        mounts=[mount], user="65532", network="none", environment={"HOME": "/tmp"}
    )
    outputs = args.volume.resolve() / "kfp"
    outputs.mkdir(exist_ok=True)
    outputs.chmod(0o777)  # the tasks write to it, as another user than this one
    local.init(runner=runner, pipeline_root=str(outputs))
    components.load_component_from_file(args.pipeline)()  # raises where a task failed
    return 0


if __name__ == "__main__":
    sys.exit(main())
