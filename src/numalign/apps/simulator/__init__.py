"""Fleets that are simulated: scenarios made into hosts and work, runs side by side, reports."""
