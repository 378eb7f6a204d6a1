"""Sparsifiers, which make masks."""
