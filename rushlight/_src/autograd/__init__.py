"""Reverse mode: recording of operator calls, and the backward engine."""
