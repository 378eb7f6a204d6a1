"""The typed subset of Python in which the hot path is written, and its compiler."""
