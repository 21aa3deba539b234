"""PyTorch's operator database on hpu: every operator and dtype that the CPU takes, against the CPU.

    python -m tests.device.operator_database --mode lazy

PyTorch describes its operators in `torch.testing._internal.common_methods_invocations`: samples, dtypes, variants.
"""
