"""Devices: what each of them provides (``base.py``), one folder a type."""
