"""Copies Kubernetes objects from stdin to stdout; Deployments lose probes and CPU requests.

On a machine that also does other work, Kubernetes then neither restarts slow pods nor leaves pods
unscheduled.
"""

import json
import sys


def main() -> None:
    text = sys.stdin.read()
    decoder, at, items = json.JSONDecoder(), 0, []
    while at < len(text):
        item, at = decoder.raw_decode(text, at)
        items.extend(item.get("items", [item]))
        at += len(text[at:]) - len(text[at:].lstrip())
    for item in items:
        pod = item.get("spec", {}).get("template", {}).get("spec", {})
        for container in pod.get("containers", []) if item["kind"] == "Deployment" else []:
            for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
                container.pop(probe, None)
            container.get("resources", {}).get("requests", {}).pop("cpu", None)
    json.dump({"apiVersion": "v1", "kind": "List", "items": items}, sys.stdout)


if __name__ == "__main__":
    main()
