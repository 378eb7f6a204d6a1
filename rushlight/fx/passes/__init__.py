"""Passes over graphs: each reads one and notes or changes something."""
