# The public names of the top level and the modules that define them. `__init__.py` loads each name
# from this list on first use; type checkers also read the list.

from . import kubeflow, nodes, recipes, sources, training
from .components.doctor.verify import verify
from .components.errors import DataError, PenstockError, UsageError
from .components.readers.export import export
from .components.readers.rows import Rows
from .pipelines.cli.diff import diff
from .pipelines.cli.ingest import ingest
from .pipelines.cli.init import init
from .pipelines.cli.inspect import inspect
from .pipelines.cli.pack import pack
from .pipelines.cli.report import report
from .pipelines.cli.run import run
from .pipelines.kubeflow.compile import compile
from .pipelines.prediction.evaluate import evaluate
from .pipelines.prediction.predict import predict

__version__: str
__all__ = [
    "DataError",
    "PenstockError",
    "Rows",
    "UsageError",
    "compile",
    "diff",
    "evaluate",
    "export",
    "ingest",
    "init",
    "inspect",
    "kubeflow",
    "nodes",
    "pack",
    "predict",
    "recipes",
    "report",
    "run",
    "sources",
    "training",
    "verify",
]
