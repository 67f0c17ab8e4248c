"""The examples of docs/models.md, word for word."""

import random

import pytest
from pages import blocks

EXAMPLES = blocks("python", "docs/models.md")


@pytest.mark.slow
def test_frozen_vectors_from_a_file_train_and_stay_as_they_were(tmp_path, penstock):
    good, bad = ["fine", "great", "lovely"], ["poor", "dull", "awful"]
    vectors = [f"{word} 1 0.5" for word in good] + [f"{word} -1 0.5" for word in bad]
    (tmp_path / "vectors.txt").write_text("\n".join(vectors))
    chance = random.Random(1)
    rows = [f"a {chance.choice(bad if i % 2 else good)} film {i},{1 - i % 2}" for i in range(2000)]
    (tmp_path / "reviews.csv").write_text("\n".join(["text,liked", *rows]))
    tell = """
print(reviews.record.epochs[-1].metrics["val_accuracy"])
frozen = next(one for one in reviews.model.layers if one.name.startswith("embedding"))
print(np.array_equal(frozen.get_weights()[0], vectors))
"""
    done = penstock.run_code(EXAMPLES[0] + tell, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-2:] == ["1.0", "True"]


@pytest.mark.slow
def test_a_quantised_model_answers_as_the_pushed_one(tmp_path, penstock, taxi_run):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/taxi").symlink_to(taxi_run.root)
    done = penstock.run_code(EXAMPLES[1], cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    served, quantised = (float(line.split()[-1]) for line in done.stdout.splitlines()[-2:])
    assert served > 0.85
    assert abs(served - quantised) < 0.01
    assert (tmp_path / "taxi.tflite").stat().st_size < 25_000
