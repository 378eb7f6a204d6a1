"""What several types of device have in common: kernels as texts, steps of the host, and memory that is kept."""
