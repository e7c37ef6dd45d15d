"""Pods per second on the real API server, in every mode of our scheduler."""
