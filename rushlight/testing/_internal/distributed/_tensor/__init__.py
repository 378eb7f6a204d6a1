"""What tests of tensors over several processes use."""
