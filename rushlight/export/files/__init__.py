"""Files of exported programs, in PyTorch's format of archives (schema 8): the program as JSON, tensors as bytes.  There
is nothing in them that runs while they are read."""
