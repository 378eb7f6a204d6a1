"""Binding of processes to the CPUs near their GPUs: ``torch.numa``."""
