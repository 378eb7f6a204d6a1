"""The graph IR: tensors, the operators that compute them, and their order."""
