"""Secrets that stand in clear text in a pipeline: found before they reach a file that others read.

A compiled pipeline is stored by Kubeflow, shown in its UI and kept in git. Passwords belong in a
Kubernetes secret or an environment variable of the container; the pipeline names them only.
"""

from tfx.proto.orchestration import pipeline_pb2

from penstock.components.errors import UsageError
from penstock.components.files.secrets import secret_kind
from penstock.pipelines.kubeflow.ir_texts import node_texts


def check_no_secrets(ir: pipeline_pb2.Pipeline) -> None:
    """Refuse a pipeline that holds a secret in clear text.

    All options of all nodes are looked at: queries, custom_config, Beam arguments, addresses.

    Raises:
        UsageError: There is one; says in which node and field and what it looks like, but not
            its value.
    """
    for text in node_texts(ir):
        if kind := secret_kind(text.field, text.value):
            raise UsageError(
                f"node {text.node_id!r}, {text.field}: looks like {kind} in clear text; "
                "take it from an environment variable that a Kubernetes secret fills"
            )
