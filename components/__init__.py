"""Reusable pipeline components. They depend on no dataset and no orchestrator."""

from penstock.components import image_features as image_features
