"""Moves that make a fleet better: planned on a capture or a live cluster, and carried out."""
