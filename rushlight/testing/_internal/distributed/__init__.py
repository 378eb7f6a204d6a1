"""Helpers for tests of programs for several processes."""
