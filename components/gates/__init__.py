"""TFX nodes that check data and models, import a schema, decide on retraining, and push models."""
