"""Shared code of several device types: kernels as source text, host steps, and caching of memory."""
