"""Triton templates of matmuls, convolutions and attention."""
