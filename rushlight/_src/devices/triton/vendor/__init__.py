"""Libraries of GPUs' vendors as claims: products by cuBLASLt and hipBLASLt, attention by cuDNN."""
