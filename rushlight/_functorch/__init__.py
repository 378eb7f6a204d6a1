"""PyTorch's ``torch._functorch`` names that programs use."""
