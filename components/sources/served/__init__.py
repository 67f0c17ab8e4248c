"""Logs of served models as rows: what was asked, what was answered, when, by which version."""
