"""Ahead-of-time autograd: a program and its derivative, as two programs."""
