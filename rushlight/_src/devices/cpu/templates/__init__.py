"""Contractions as templates: matrix products and convolutions, generated for a layout and a register tile."""
