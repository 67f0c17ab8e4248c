"""Gates that stop a run on unfit data; also code for schema, baseline, retraining and push."""
