import pytest
from tfx.components import CsvExampleGen
from tfx.dsl.component.experimental.annotations import Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration.pipeline import Pipeline

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.kubeflow.machine_paths import check_paths
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.resources import Volume


@component
def read(path: Parameter[str]):
    del path


def compiled(*nodes):
    return irs.compile_ir(Pipeline("p", "/r", components=list(nodes)))


def on(folder):
    volume = Volume(mount_path=str(folder))
    return Placement(
        pipeline_root=f"{folder}/runs", metadata_sqlite=f"{folder}/m.sqlite", volume=volume
    )


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "span-1").mkdir()
    return folder


def test_a_folder_of_this_machine_is_refused(data):
    expected = (
        rf"^node 'CsvExampleGen', input_base: {data} is a path of this machine, which containers "
        r"do not see; put it on the volume, into a bucket or a package, or name it in the "
        r"placement's image_paths if the image has it too$"
    )
    with pytest.raises(UsageError, match=expected):
        check_paths(compiled(CsvExampleGen(input_base=str(data))), Placement())


@pytest.mark.parametrize(
    "text",
    [
        "{data}/span-*/x.csv",
        "{data}/span-{{SPAN}}/*",
        "file://{data}",
        "--temp_location={data}",
        "trips@{data}/span-1",
        '{{"deep": ["{data}"]}}',
    ],
)
def test_it_is_found_within_texts(data, text):
    with pytest.raises(UsageError, match=r"node 'read', path"):
        check_paths(compiled(read(path=text.format(data=data))), Placement())


def test_what_is_on_the_volume_or_in_the_image_is_not(data):
    ir = compiled(read(path=f"{data}/span-1"))

    check_paths(ir, on(data))
    check_paths(ir, on(data.parent))
    check_paths(ir, Placement(image_paths=(str(data),)))
    with pytest.raises(UsageError):
        check_paths(ir, on(f"{data}/span"))


@pytest.mark.parametrize(
    "text", ["/no/such/folder", "gs://bucket/data", "/", "/tmp", "SELECT a /* b */ FROM c", "a/usr"]
)
def test_what_this_machine_lacks_or_all_have_is_not(text):
    check_paths(compiled(read(path=text)), Placement())


def test_files_of_packages_are_not(taxi_csv):
    check_paths(compiled(read(path=str(taxi_csv))), Placement())
