"""Evaluates models in whole batches and writes the result in TFMA's file formats."""

# File of an evaluation. Here, as the rest of the package imports TensorFlow, 5 s of CPU.
ERROR_ANALYSIS_NAME = "error_analysis.json"
