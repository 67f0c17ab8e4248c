"""The numbers in the config of `penstock init`, computed from properties of the data."""

import pytest

from penstock.pipelines.starter.look import ImagesLook, look_at
from penstock.pipelines.starter.options import StarterOptions
from penstock.pipelines.starter.plan import plan_images, plan_table


def test_threshold_of_classes_is_between_the_constant_and_one_row_more(tmp_path):
    file = tmp_path / "rows.csv"
    kinds = ["usual"] * 38 + ["rare", "odd"]
    lines = [f"{i % 7},{kinds[i % 40]}" for i in range(3000)]
    file.write_text("\n".join(["x,kind", *lines]) + "\n")
    look = look_at(str(file), StarterOptions(targets=("kind",)))
    plan = plan_table(look, "rows.csv")
    assert 0.95 < plan.thresholds["SparseCategoricalAccuracy"] < 0.95 + 1 / 3000
    assert plan.max_worsening == {"SparseCategoricalAccuracy": 0.02}


@pytest.mark.parametrize(
    ("classes", "threshold"), [({"a": 15, "b": 15}, 0.516667), ({"a": 900, "b": 100}, 0.9005)]
)
def test_threshold_of_images_is_what_a_constant_reaches(classes, threshold):
    look = ImagesLook(sum(classes.values()), None, None, classes, 8, 1, has_words=False)
    assert plan_images(look, "photos").thresholds == {"SparseCategoricalAccuracy": threshold}
