"""The examples of docs/training.md, as they stand there, one after the other in one process."""

import re
from pathlib import Path

import numpy as np
import pytest

DOC = Path(__file__).parents[3] / "docs/training.md"


@pytest.mark.slow
def test_the_plain_script_fit_and_sequences_run_as_they_stand(tmp_path, penstock):
    blocks = re.findall(r"^```python\n(.*?)^```$", DOC.read_text(), re.MULTILINE | re.DOTALL)
    script, fit, sequences, tuning = blocks[:4]
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
    code = "\n".join([script, fit, tell, sequences, tuning, last])
    done = penstock.run_code(code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    files, *errors, begun, accuracy = done.stdout.splitlines()[-5:]
    assert files == "['houses.csv', 'model', 'run', 'shards']"
    assert all(float(error) < 0.5 for error in errors)
    assert begun == "warm start: 6 of 6 weights are those of model-visits"
    assert float(accuracy) > 0.9
