"""Templates: kernels of WGSL that are written for products, and for convolutions as products that gather operands."""
