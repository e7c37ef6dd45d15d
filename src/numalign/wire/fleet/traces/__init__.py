"""Recorded work: lists of hosts and pods that others have published, and our own."""
