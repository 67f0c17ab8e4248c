"""The public face: what `import penstock` gives, and what it costs."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parents[1]

# A change here is a change for users: it belongs in CHANGELOG.md.
PUBLIC = """
ApplicationBase AugmentOptions Augmentation AvroOptions BatchEvaluator BinaryOptions CATEGORIES_XF
ContentDriver CuratedSchema DataError EarlyStop EngineOptions EvaluationOptions IMAGE ImageColumn
ImageConfig ImageGate ImageInputOptions ImageModelOptions ImageOptions ImageRules IngestOptions
InputFacts InputOptions InputStart JsonLinesOptions KServeOptions KServePush LabelFacts LabelFn
LatestBlessedOfOtherDataStrategy LatestBlessedStatisticsStrategy LatestOtherBlessedModelStrategy
LatestSpansStrategy ModelCard NUMBERS_XF Pack PackOptions PenstockError Placement Pusher Rows
Served ServingCheck ShardOptions ShardedExampleGen SourceOptions SparkOptions Split SplitOptions
SqlOptions TFDSOptions TFRecordOptions TableConfig TableData TableModelOptions Target TextOptions
TrackOptions TrainOptions TransformGraph UsageError ValidationGate augment_in_input
boolean_numbers category_ids category_sizes check_application class_ids code_digest compile
date_parts decode_features dense_column eval_config eval_image_input_fn eval_input_fn export
export_shards feature_spec from_plain image_classes image_examples image_features image_gate
image_input_facts image_model image_splits ingest init input_facts inspect join_workers
label_values local_beam_args pack packed_eval_input_fn packed_input_facts packed_train_input_fn
predict read_placement report resume_dir run run_root scaled_numbers schema_file serve_columns
serve_images steps_per_epoch stored_images table_examples table_inputs table_model target_labels
train train_image_input_fn train_images train_input_fn train_tables training_pipeline verify
warm_started write_tfrecords
"""


def python(code, folder):
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_what_is_public():
    assert set(penstock.__all__) == set(PUBLIC.split())


@pytest.mark.parametrize(
    "name", sorted(set(PUBLIC.split()) - {"CATEGORIES_XF", "IMAGE", "LabelFn", "NUMBERS_XF"})
)
def test_every_public_name_is_documented(name):
    assert inspect.getdoc(getattr(penstock, name))


def test_the_import_is_light(tmp_path):
    heavy = {"tensorflow", "tfx", "apache_beam", "pyarrow", "numpy", "keras", "kfp", "rich"}
    code = "import penstock, sys; print(*{m.split('.')[0] for m in sys.modules})"
    assert set(python(code, tmp_path)) & heavy == set()


def test_the_folder_above_a_clone_does_not_hide_the_package(tmp_path):
    (tmp_path / "penstock" / "components").mkdir(parents=True)
    file, version = python("import penstock as p; print(p.__file__, p.__version__)", tmp_path)
    assert (file, version) == (penstock.__file__, penstock.__version__)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = penstock.no_such_name


@pytest.mark.parametrize("use_case", ["taxi", "digits"])
def test_use_cases_import_the_face_alone(use_case):
    folder = ROOT / "pipelines" / use_case
    imported = {
        node.module
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock")
    }
    assert {m for m in imported if not m.startswith(f"penstock.pipelines.{use_case}")} == {
        "penstock"
    }


def test_ingest_as_a_function(taxi_csv, tmp_path):
    manifest = penstock.ingest(
        str(taxi_csv),
        tmp_path / "shards",
        splits=penstock.SplitOptions((penstock.Split("train", 9), penstock.Split("eval", 1))),
        options=penstock.IngestOptions(shards=penstock.ShardOptions(shards=2)),
    )
    assert manifest.account.read == 15002
    assert [len(shards) for shards in manifest.splits.values()] == [2, 2]
    assert penstock.verify(str(tmp_path / "shards")).records == 15002


def test_a_bad_row_is_an_error_of_one_line(tmp_path):
    (tmp_path / "trips.csv").write_text("id,fare\n1,2.5\n2,3.5,9\n")
    with pytest.raises(penstock.DataError, match=r"trips.csv: line 3 \(row 2\): 3 fields"):
        penstock.ingest(str(tmp_path / "trips.csv"), tmp_path / "shards")
    assert not (tmp_path / "shards").exists()


def test_compile_as_a_function(tmp_path):
    plan = penstock.compile("taxi", tmp_path / "taxi.yaml", image=f"penstock@sha256:{'0' * 64}")
    assert {"shardedexamplegen", "trainer", "pusher"} < {task.name for task in plan.tasks}
    assert (tmp_path / "taxi.yaml").exists()
