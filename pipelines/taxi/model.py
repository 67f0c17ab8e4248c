"""The model: `table_model`, a weight per category (wide) and a small network (deep)."""

import keras

from penstock.pipelines.taxi import features
from penstock.recipes import TableData, TableModelOptions, from_plain, table_model


def build_model(data: TableData) -> keras.Model:
    """Build and compile the model with the sizes of `config.TaxiConfig.model`.

    Inputs: `numbers_xf` float32 [batch, 6] and `categories_xf` int64 [batch, 9].
    Output: float32 [batch, 1], the probability that the passenger tips well.
    """
    options = from_plain(TableModelOptions, data.fn_args.custom_config["model"])
    return table_model(
        data.targets,
        data.labels if options.class_weights else {},
        options,
        numbers=2 * len(features.NUMERIC),
        categories=list(features.category_sizes().values()),
    )
