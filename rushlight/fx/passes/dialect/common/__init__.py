"""Passes over graphs of operators of any kind."""
