"""Reusable pipeline components. They know no dataset and no orchestrator."""
