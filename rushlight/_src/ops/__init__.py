"""What the operators are: declarations only, each operator in one place."""
