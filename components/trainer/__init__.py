"""Training from TFRecord shards: input, loop, utilisation, export.

A whole `run_fn` for TFX's stock Trainer, which a use case keeps in its `run_fn.py`:

    from dataclasses import asdict

    import tensorflow_transform as tft
    from penstock.components.trainer.checkpoints import resume_dir
    from penstock.components.trainer.export import export
    from penstock.components.tfrecord.feature_spec import feature_spec
    from penstock.components.trainer.input.options import InputOptions
    from penstock.components.trainer.input.facts import input_facts
    from penstock.components.trainer.input.files import steps_per_epoch
    from penstock.components.trainer.input.rows import eval_input_fn, train_input_fn
    from penstock.components.trainer.loop import train
    from penstock.components.trainer.trackers.options import TrackOptions
    from penstock.components.trainer.options import EarlyStop, TrainOptions

    def run_fn(fn_args):
        transform = tft.TFTransformOutput(fn_args.transform_graph_path)
        spec = feature_spec(transform.transformed_metadata.schema)
        reading = InputOptions(batch_size=256, cache="memory")
        options = TrainOptions(
            max_steps=fn_args.train_steps,
            steps_per_epoch=steps_per_epoch(fn_args.train_files, batch_size=reading.batch_size),
            eval_steps=fn_args.eval_steps,
            early_stop=EarlyStop(metric="val_loss", patience_epochs=3),
        )
        trained = train(
            build_model,
            train_input_fn(fn_args.train_files, spec, label="tips_xf", options=reading),
            eval_input_fn(fn_args.eval_files, spec, label="tips_xf", options=reading),
            options=options,
            model_run_dir=fn_args.model_run_dir,
            resume_dir=resume_dir(
                fn_args.model_run_dir, [fn_args.train_files, asdict(reading), asdict(options)]
            ),
            input_facts=input_facts(fn_args.train_files, spec, options=reading),
            track=TrackOptions(kind="mlflow", uri="http://mlflow:5000"),  # or leave it out
        )
        export(trained.model, fn_args.serving_model_dir, label="tips", transform=transform)
        trained.discard_checkpoints()

`build_model` makes and compiles a Keras 3 model; `train` calls it where it must be called.
"""
