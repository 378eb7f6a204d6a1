"""What tests of programs for several processes use."""
