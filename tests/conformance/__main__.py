"""Runs Penstock's checks on a cluster with Kubeflow Pipelines and prints a Markdown table.

    python tests/conformance --image NAME@sha256:... [--kubeconfig FILE] [--kfp ADDRESS]

Needs Python and kubectl. Penstock's own commands run in a pod of the image. The created objects
(the overlay `single-node` or `profile`, the namespace `penstock`, runs) are kept for inspection.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import checks
from cluster import Cluster, NotThereError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image", required=True, help="Penstock's image, as nodes pull it")
    parser.add_argument("--kubeconfig", default="", help="default: kubectl's own")
    parser.add_argument("--namespace", default="kubeflow", help="namespace of the runs' pods")
    parser.add_argument(
        "--kfp",
        default="http://ml-pipeline.kubeflow:8888",
        help="address of KFP's API inside the cluster",
    )
    parser.add_argument("--mariadb", default="docker.io/library/mariadb:11.4", help="its image")
    parser.add_argument(
        "--s3-image", default="", help="image whose s3.sh starts an S3 server, for other-store"
    )
    parser.add_argument("--own-image", default="", help="image with a package of your own")
    parser.add_argument("--own-pipeline", default="mine.pipeline:create_pipeline")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="CHECK", help="checks to run; by default all"
    )
    parser.add_argument("--out", type=Path, help="append the table to this file")
    args = parser.parse_args()

    cluster = Cluster(args.kubeconfig, args.namespace, args.kfp, args.image, args.mariadb)
    every: dict[str, Callable[[], str]] = {
        "overlays": lambda: checks.overlays_are_accepted(cluster),
        "restricted-and-quota": lambda: checks.restricted_and_quota_refuse(cluster),
        "accounts": lambda: checks.accounts_may_only_what_they_need(cluster),
        "volume": lambda: checks.volume_is_writable(cluster),
        "doctor": lambda: checks.doctor(cluster),
        "submit": lambda: checks.taxi_runs(cluster),
        "cached-run": lambda: checks.taxi_again_is_cached(cluster),
        "resolver": lambda: checks.resolver_finds_the_blessed_model(cluster),
        "failing-node": lambda: checks.failing_node_says_why(cluster),
        "schedule": lambda: checks.schedule_starts_its_own_run(cluster),
        "own-image": lambda: checks.users_image_runs(cluster, args.own_image, args.own_pipeline),
        "workers": lambda: checks.jobset_trains(cluster),
        "profile": lambda: checks.profile_leaves_others_alone(cluster),
        "other-store": lambda: checks.store_of_another_kind(cluster, args.s3_image),
        "kserve": lambda: checks.kserve_gets_the_model(cluster),
    }
    if unknown := [name for name in args.only if name not in every]:
        parser.error(f"no check {unknown[0]!r}; choices: {', '.join(every)}")
    chosen = args.only or list(every)
    if set(chosen) - {"overlays", "restricted-and-quota", "accounts"}:
        cluster.install("single-node", namespace=args.namespace)
        cluster.start_pod()
    rows, failed = run_checks({name: every[name] for name in chosen}, heading(cluster))
    cluster.stop_pod()
    if args.out:
        with args.out.open("a") as file:
            file.write("\n".join([*rows, ""]))
    return 1 if failed else 0


def run_checks(chosen: Mapping[str, Callable[[], str]], title: str) -> tuple[list[str], bool]:
    """Runs checks by name; returns the lines of their table, and whether any has failed."""
    rows = [title, "", "| check | result | s | seen |", "|---|---|--:|---|"]
    print("\n".join(rows), flush=True)
    failed = False
    for name, check in chosen.items():
        begin = time.monotonic()
        try:
            result, seen = "passed", check()
        except NotThereError as error:
            result, seen = "not there", str(error)
        except (AssertionError, ValueError, LookupError, subprocess.SubprocessError) as error:
            result, seen, failed = "**failed**", f"{type(error).__name__}: {error}", True
        seen = " ".join(seen.replace("|", "\\|").split())
        rows.append(f"| {name} | {result} | {time.monotonic() - begin:.0f} | {seen} |")
        print(rows[-1], flush=True)
    return rows, failed


def heading(cluster: Cluster) -> str:
    """Returns the heading of the table: the versions of the cluster and the image."""
    version = json.loads(cluster.kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
    node = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    runtime = node[0]["status"]["nodeInfo"]["containerRuntimeVersion"] if node else "no node"
    public = cluster.kubectl(
        *("get", "configmap", "kubeflow-pipelines-public", "-n", "kubeflow", "--ignore-not-found"),
        *("-o", "jsonpath={.data.kubeflow_pipelines_version}"),
        check=False,
    )
    return (
        f"Kubernetes {version}, {len(node)} node(s), {runtime}, KFP {public.strip() or 'unknown'}, "
        f"image {cluster.image}"
    )


if __name__ == "__main__":
    sys.exit(main())
