"""Exports of a model: at the end, and versions while it trains."""
