"""Measurements: our code beside the real Go code, as ratios in one run.

``make bench`` or ``python -m bench [--quick]``. Nothing here is a test: machines are noisy, so
figures are medians and minima, and what counts is the ratio within one run.
"""
