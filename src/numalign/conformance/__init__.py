"""Replays recorded decisions of the real kubelet through the deciding core.

``python -m numalign.conformance FILE...`` takes vector files (JSON lines, gzipped or not) and
reports every difference. One module per family of files.
"""
