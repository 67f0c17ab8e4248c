"""Logs of served models as rows: the request, the answer, the time and the model's version."""
