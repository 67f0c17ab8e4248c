"""Shows a run as one HTML page: gathers facts into plain dataclasses, then renders them."""
