"""Running one operator now."""
