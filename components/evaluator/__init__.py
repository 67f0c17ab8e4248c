"""Evaluates models in whole batches and writes the result in TFMA's file formats."""
