"""Hosts that stand still, shown as a running agent shows its own."""
