"""Passes over graphs of one kind of operators."""
