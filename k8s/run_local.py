"""Runs a compiled pipeline in Docker containers on this machine, with KFP's own local engine.

    pip install "kfp>=2.14" docker
    python k8s/run_local.py taxi.yaml --volume /srv/penstock

Each task is a container as on a cluster: uid 65532, a read-only root file system with a /tmp of its
own, and the volume at /penstock in place of a persistent volume claim. A task has no network by
default; `--network` names one, for example to reach a metadata store on a MySQL server.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import docker
from kfp import components, local
from kfp.local import docker_task_handler

MOUNT = "/penstock"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipeline", help="compiled pipeline file")
    parser.add_argument("--volume", type=Path, required=True, help="a folder, for uid 65532")
    parser.add_argument("--network", default="none", help="a Docker network")
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME",
        help="environment variable to pass on; on a cluster a secret would set it",
    )
    args = parser.parse_args()
    missing = [name for name in args.env if name not in os.environ]
    if missing:
        parser.error(f"not in the environment: {', '.join(missing)}")
    volume = args.volume.resolve()
    runner = local.DockerRunner(
        mounts=[docker.types.Mount(target=MOUNT, source=str(volume), type="bind")],
        user="65532",
        network=args.network,
        read_only=True,
        tmpfs={"/tmp": ""},
        environment={"HOME": "/tmp", **{name: os.environ[name] for name in args.env}},
    )
    outputs = volume / "kfp"
    outputs.mkdir(exist_ok=True)
    outputs.chmod(0o777)  # the tasks write to it as another user
    local.init(runner=runner, pipeline_root=str(outputs))
    docker_task_handler.run_docker_container = _run_container
    try:
        components.load_component_from_file(args.pipeline)()
    except RuntimeError as error:  # its text names the task, which has already printed its error
        print(f"{args.pipeline}: {error}", file=sys.stderr)
        return 1
    return 0


def _run_container(
    client: docker.DockerClient,
    image: str,
    command: Sequence[str],
    volumes: Mapping[str, Any],
    **options: Any,
) -> int:
    """Runs a task's container with its log on stdout; returns its exit code.

    This replaces KFP's own function, which lets Docker remove the container when it ends. If the
    container is gone before KFP asks for the exit code, KFP counts the task as done, even if it
    failed.
    """
    container = client.containers.run(image, command, detach=True, volumes=volumes, **options)
    try:
        for chunk in container.logs(stream=True):
            print(chunk.decode(errors="replace"), end="", flush=True)
        return int(container.wait()["StatusCode"])
    finally:
        container.remove(force=True)


if __name__ == "__main__":
    sys.exit(main())
