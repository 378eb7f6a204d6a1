"""Program transformations, one interpreter per file."""
