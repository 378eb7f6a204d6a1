"""The implementation.  Names that PyTorch has are one package above, at PyTorch's path."""
