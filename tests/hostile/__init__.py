"""A real agent under random hostile actions, and laws that are read from the kernel and the disk.

``python -m tests.hostile --seconds 120 --seed 1``. Nothing here asks the agent's own code what is
right: the laws are checked from ``/proc``, the cgroups, and the bytes of the state files.
"""
