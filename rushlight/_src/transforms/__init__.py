"""Other meanings of a program, one interpreter a file."""
