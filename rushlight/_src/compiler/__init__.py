"""From a Graph to machine code."""
