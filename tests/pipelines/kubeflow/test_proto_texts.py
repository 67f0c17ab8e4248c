from google.protobuf import any_pb2, struct_pb2
from ml_metadata.proto import metadata_store_pb2
from tfx.proto import example_gen_pb2
from tfx.proto.orchestration import executable_spec_pb2, pipeline_pb2

from penstock.pipelines.kubeflow.proto_texts import change_texts


def test_texts_are_changed_at_every_depth():
    struct = struct_pb2.Struct()
    struct["path"] = "/here/a"
    struct["list"] = ["/here/b", 3]
    config = example_gen_pb2.CustomConfig()
    config.custom_config.Pack(struct)
    packed = any_pb2.Any()
    packed.Pack(config)

    change_texts(packed, lambda text: text.replace("/here", "/there"))

    unpacked, inner = example_gen_pb2.CustomConfig(), struct_pb2.Struct()
    packed.Unpack(unpacked)
    unpacked.custom_config.Unpack(inner)
    assert inner["path"] == "/there/a"
    assert list(inner["list"]) == ["/there/b", 3]


def test_texts_in_repeated_fields_and_maps_are_changed():
    beam = executable_spec_pb2.PythonClassExecutableSpec(class_path="a.B", extra_flags=["x", "y"])
    value = metadata_store_pb2.Value(string_value="x")
    fake = metadata_store_pb2.Execution(properties={"k": value})
    for message in (beam, fake):
        change_texts(message, str.upper)

    assert (beam.class_path, list(beam.extra_flags)) == ("A.B", ["X", "Y"])
    assert fake.properties["k"].string_value == "X"


def test_any_of_unknown_type_stays():
    unknown = any_pb2.Any(type_url="type.googleapis.com/no.such.Type", value=b"/here")
    ir = pipeline_pb2.Pipeline(deployment_config=unknown)
    change_texts(ir, str.upper)

    assert ir.deployment_config == unknown
