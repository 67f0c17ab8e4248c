"""Three examples of docs/training.md and the one of docs/sequences.md run in one process."""

import numpy as np
import pytest
from pages import blocks


@pytest.mark.slow
def test_the_plain_script_fit_and_sequences_run_as_they_stand(tmp_path, penstock):
    script, fit, tuning = blocks("python", "docs/training.md")[:3]
    (sequences,) = blocks("python", "docs/sequences.md")
    assert "penstock.training.export_model" in script
    assert "model.fit(" in fit
    assert "feature_lists" in sequences
    generator = np.random.default_rng(0)
    size, age = generator.normal(size=(2, 4000))
    rows = [f"{s:.3f},{a:.3f},{2 * s - a:.3f}" for s, a in zip(size, age, strict=True)]
    (tmp_path / "houses.csv").write_text("\n".join(["size,age,price", *rows]))
    tell = "print(sorted(p.name for p in __import__('pathlib').Path('.').iterdir()))\n"
    tell += "print(trained.record.epochs[-1].metrics['val_mae'])\n"
    tell += "print(model.history.history['val_mae'][-1])"
    last = "print(visits.record.epochs[-1].metrics['val_accuracy'])"
    code = "\n".join([script, fit, tuning, sequences, tell, last])
    done = penstock.run_code(code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    files, *errors, accuracy = done.stdout.splitlines()[-4:]
    made = ["model", "model-visits", "run", "run-tuned", "run-visits", "shards", "visits"]
    assert files == str(["houses.csv", *made, "visits.tfrecord"])
    assert all(float(error) < 0.5 for error in errors)
    assert "warm start: 4 of 4 weights are those of model\n" in done.stdout
    assert float(accuracy) > 0.9
