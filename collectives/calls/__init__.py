"""Each collective from its tensors to an `Operation`: the checks, the arrays, the header."""
