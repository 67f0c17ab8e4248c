"""Evaluates models in whole batches and writes the result in TFMA's file formats."""

# File name of an error analysis. It is defined here, because `error_analysis.py` imports
# TensorFlow, which takes 5 s of CPU.
ERROR_ANALYSIS_NAME = "error_analysis.json"
