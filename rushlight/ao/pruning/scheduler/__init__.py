"""Schedulers of sparsity."""
