"""Optimisation of architectures, of which quantization is the part that programs know."""
