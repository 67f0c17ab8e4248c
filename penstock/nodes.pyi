# The names of `penstock.nodes` and the modules that define them.

from .components.batches.statistics_gen import BatchStatisticsGen
from .components.batches.transform import BatchTransform
from .components.evaluator.component import BatchEvaluator
from .components.evaluator.register import Register
from .components.example_gen.component import ShardedExampleGen
from .components.gates.curated_schema import CuratedSchema
from .components.gates.gate import ValidationGate
from .components.gates.image_gate import ImageGate
from .components.gates.kserve import KServePush
from .components.gates.options import (
    GateOptions,
    ImageRules,
    KServeOptions,
    RegisterOptions,
    RetrainOptions,
    ServingOptions,
)
from .components.gates.pusher import Pusher
from .components.gates.retrain_gate import RetrainGate
from .components.gates.serving_check import ServingCheck
from .components.packing.component import Pack
from .components.packing.options import PackOptions

__all__ = [
    "BatchEvaluator",
    "BatchStatisticsGen",
    "BatchTransform",
    "CuratedSchema",
    "GateOptions",
    "ImageGate",
    "ImageRules",
    "KServeOptions",
    "KServePush",
    "Pack",
    "PackOptions",
    "Pusher",
    "Register",
    "RegisterOptions",
    "RetrainGate",
    "RetrainOptions",
    "ServingCheck",
    "ServingOptions",
    "ShardedExampleGen",
    "ValidationGate",
]
