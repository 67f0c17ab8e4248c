"""A run as one HTML page: facts are gathered into plain dataclasses, then rendered."""
