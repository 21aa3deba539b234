"""`hccl_demo`: HCCL's benchmark program, with its options and output lines, on emulated cards."""
