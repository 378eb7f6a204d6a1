"""Claims of GPU vendors' libraries: matmuls by cuBLASLt and hipBLASLt, attention by cuDNN."""
