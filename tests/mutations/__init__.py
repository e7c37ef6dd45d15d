"""Proofs that can fail: small breakages, each with the tests that must notice it."""
