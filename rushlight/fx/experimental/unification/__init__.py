"""Terms with variables, and functions of dictionaries."""
