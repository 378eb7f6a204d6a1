"""Passes over graphs that libraries register, by PyTorch's names."""
