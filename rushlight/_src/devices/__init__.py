"""Device types: the common interface (``base.py``), and one directory per type."""
