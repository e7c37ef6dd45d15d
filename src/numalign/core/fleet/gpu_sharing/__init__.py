"""Hosts whose GPUs are shared by the thousandth, without NUMA: a published experiment."""
