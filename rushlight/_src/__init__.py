"""The implementation.  What PyTorch has a name for stands above, at PyTorch's path."""
