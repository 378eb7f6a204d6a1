"""Contractions as templates: matmuls and convolutions, generated for a layout and a register tile."""
