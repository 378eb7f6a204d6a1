"""Programs that look into Rushlight."""
