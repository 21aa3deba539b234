"""Small random programs as plain data, and what they compute: for comparing the modes in which the card can run them.

A program works on a list of matrices. Each step takes one or two of them by number (counted around the list's length)
and appends a result, or changes one in place.
"""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st

ROWS, COLUMNS = 4, 6

Step = tuple[str, int, int]

NEW = {
    "add": lambda a, b: a + b.reshape(a.shape),
    "mul": lambda a, b: a * b.reshape(a.shape) * 0.5,
    "matmul": lambda a, b: (a @ b.reshape(a.shape).t() @ a) * 0.1,
    "relu": lambda a, b: torch.relu(a),
    "softmax": lambda a, b: torch.softmax(a, -1),
    "sum": lambda a, b: a.sum(0, keepdim=True).expand(a.shape),
    "mean": lambda a, b: a - a.mean(1, keepdim=True),
    "where": lambda a, b: torch.where(a > 0, a, b.reshape(a.shape)),
    "flip": lambda a, b: a.flip(0),
    "turned": lambda a, b: (a.t() + 1).t(),
    "sorted": lambda a, b: a.sort(1).values,
    "copy": lambda a, b: a.clone(),
    "dropout": lambda a, b: torch.nn.functional.dropout(a, 0.3),
    "view": lambda a, b: a.view(-1).view(a.shape) if a.is_contiguous() else a,
}
IN_PLACE = {
    "add_": lambda a, b: a.add_(0.25),
    "row_": lambda a, b: a[1].mul_(2),
    "column_": lambda a, b: a.t()[2].sub_(1),
    "corner_": lambda a, b: a[1:3, 2:].fill_(0.5),
    "clamp_": lambda a, b: a.clamp_(-2, 2),
}

_numbers = st.integers(0, 7)
programs = st.lists(st.tuples(st.sampled_from([*NEW, *IN_PLACE]), _numbers, _numbers), min_size=1, max_size=8)


def compute(program: list[Step], *matrices: torch.Tensor) -> list[torch.Tensor]:
    """All matrices at the program's end."""
    values = [matrix * 1 for matrix in matrices]
    for name, first, second in program:
        a, b = values[first % len(values)], values[second % len(values)]
        if name in NEW:
            values.append(NEW[name](a, b))
        elif 0 not in a.stride():  # several of its elements are one in memory
            IN_PLACE[name](a, b)
    return values


def inputs() -> list[torch.Tensor]:
    """The matrices that programs start from."""
    generator = torch.Generator().manual_seed(4)
    return [torch.randn(ROWS, COLUMNS, generator=generator) for _ in range(2)]


def on_card(program: list[Step], run: Any = compute) -> list[list[float]]:
    """The results on hpu, as lists of numbers, with a seed of their own."""
    matrices = [matrix.to("hpu") for matrix in inputs()]
    torch.manual_seed(11)
    return [value.detach().cpu().flatten().tolist() for value in run(program, *matrices)]
