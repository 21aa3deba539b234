"""The process that runs operators: takes names from standard input, answers with a line of JSON for each."""

from __future__ import annotations

import json
import os
import random
import sys
import warnings
from itertools import islice
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations as database
from torch.testing._internal import common_utils, opinfo

from .comparison import Case, Different, NotTaken, Refused, check_error

FOREACH = [name for name in dir(database) if name.startswith("foreach_") and name.endswith("_op_db")]


def _no_test() -> None:
    """Samples ask which unittest they are made for: none, and to find that out takes most of the time."""


for _module in (common_utils, opinfo.core):
    _module.extract_test_fn = _no_test


def key_of(op: Any) -> str:
    """Name and variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def operators() -> dict[str, Any]:
    """All operators of the database by name."""
    listed = [*database.op_db, *(op for name in FOREACH for op in getattr(database, name))]
    return {key_of(op): op for op in listed}


def examine(op: Any, dtype: torch.dtype, most: int | None, values: bool = True) -> dict[str, Any]:
    """Status of one operator with one dtype: passed, failed, refused (by the card) or skipped (by the CPU)."""
    if dtype.is_complex:
        return {"status": "refused", "reason": "complex", "samples": 0}
    differentiable = dtype.is_floating_point and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    taken, refused, reason = 0, "", ""
    problems: list[str] = []
    torch.manual_seed(0)
    random.seed(0)  # some samples are drawn from it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            samples = list(islice(op.sample_inputs("cpu", dtype, requires_grad=differentiable), most))
        except Exception as error:
            return {"status": "skipped", "reason": f"no samples: {error}", "samples": 0}
        for number, sample in enumerate(samples):
            case = Case(op, (sample.input, tuple(sample.args), dict(sample.kwargs)), values)
            variants = [lambda case=case: case.forward_and_backward(differentiable), case.into]
            if not sample.broadcasts_input:
                variants.append(case.in_place)
            for variant in variants:
                try:
                    variant()
                except NotTaken as error:
                    reason = str(error)
                    if variant is variants[0]:
                        break
                except Refused as error:
                    refused = str(error)
                except Different as error:
                    problems.append(f"sample {number}: {error}")
            else:
                taken += 1
    if problems:
        kinds = {problem.partition(": ")[2].partition(":")[0] for problem in problems}
        return {"status": "failed", "reason": f"[{', '.join(sorted(kinds))}] {problems[0]}", "samples": taken}
    if refused:
        return {"status": "refused", "reason": refused, "samples": taken}
    if not taken:
        return {"status": "skipped", "reason": f"the CPU takes no sample: {reason}"[:300], "samples": 0}
    return {"status": "passed", "reason": "", "samples": taken}


def examine_errors(op: Any) -> dict[str, Any]:
    """Status of an operator's samples of wrong arguments."""
    taken, problems, reason = 0, [], ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            samples = list(op.error_inputs("cpu")) if getattr(op, "error_inputs_func", None) else []
        except Exception as error:
            return {"status": "skipped", "reason": f"no samples: {error}", "samples": 0}
        for number, wrong in enumerate(samples):
            sample = wrong.sample_input
            try:
                check_error(op, (sample.input, tuple(sample.args), dict(sample.kwargs)), wrong.error_type)
                taken += 1
            except Different as error:
                problems.append(f"sample {number}: {error}")
            except Exception as error:
                reason = str(error)
    if problems:
        return {"status": "failed", "reason": f"[errors] {problems[0]}"[:400], "samples": taken}
    return {"status": "passed" if taken else "skipped", "reason": reason[:300], "samples": taken}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.zeros(1, device="hpu")
    known = operators()
    for line in sys.stdin:
        name, dtype, most, values = json.loads(line)
        op = known[name]
        result = examine_errors(op) if dtype == "errors" else examine(op, getattr(torch, dtype), most, values)
        torch.hpu.synchronize()
        print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    main()
