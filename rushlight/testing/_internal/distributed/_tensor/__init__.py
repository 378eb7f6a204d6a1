"""Helpers for tests of distributed tensors."""
