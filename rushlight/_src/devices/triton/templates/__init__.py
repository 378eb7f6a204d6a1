"""Templates of Triton: products and convolutions."""
