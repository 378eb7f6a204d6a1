"""Reverse mode: what calls record, and how it is run backward."""
