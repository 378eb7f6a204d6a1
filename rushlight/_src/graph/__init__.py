"""Programs written down: which tensors, computed by which operators, in which order."""
