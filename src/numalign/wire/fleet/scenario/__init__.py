"""Scenario files of ``numalign simulate``. docs/reference/fleet.md has the fields one by one."""
