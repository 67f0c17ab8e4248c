import pytest

from penstock.components.errors import DataError
from penstock.components.trainer.input.input import Input, damage_in
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.loop import train
from penstock.components.trainer.options import TrainOptions

pytestmark = pytest.mark.slow


def test_a_damaged_record_stops_the_training_and_is_named_with_its_shard(tmp_path, data, toy):
    shards = data.write_shards(tmp_path, (40, 40))
    source = [str(tmp_path / "Split-train" / "*")]
    spec = {name: data.spec[name] for name in ("x", "y")}
    options = InputOptions(batch_size=8, seed=1)

    def inputs():
        rows = Input.rows(source, spec, options=options, label="y")
        return rows.train(), rows.eval()

    assert damage_in(*inputs(), None) is None
    altered = bytearray(shards[1].read_bytes())
    altered[-10] ^= 1
    shards[1].write_bytes(altered)
    broken, _ = inputs()
    with pytest.raises(DataError) as caught:
        train(
            toy.build_model,
            broken,
            options=TrainOptions(max_steps=50, steps_per_epoch=50),
            model_run_dir=str(tmp_path / "run"),
        )
    assert str(caught.value).startswith("the input cannot be read after step ")
    assert f": {shards[1]}: record 39 at offset " in str(caught.value)
    assert str(caught.value).endswith("; the record is damaged")
