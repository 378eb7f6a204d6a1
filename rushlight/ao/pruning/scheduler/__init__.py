"""What changes how sparse weights are."""
