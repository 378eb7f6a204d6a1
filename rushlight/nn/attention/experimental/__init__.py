"""What may still change: keys and values in pages."""
