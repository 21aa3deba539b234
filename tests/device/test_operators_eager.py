"""PyTorch's operator database in eager mode, and without numerics: two processes that go through all of it."""

from __future__ import annotations

import pytest

from ..conftest import ROOT, Script

EXAMINE = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import torch
from tests.device.operator_database.worker import examine, operators

values = sys.argv[1] == "values"
problems = []
for name, op in operators().items():
    for dtype in (torch.float32, torch.int64):
        if dtype in op.supported_dtypes("cpu"):
            result = examine(op, dtype, 1, values)
            if result["status"] == "failed":
                problems.append(f"{{name}} {{dtype}}: {{result['reason']}}")
assert not problems, "\\n".join(problems)
"""


def test_operators_equal_the_cpu_in_eager_mode(script: Script) -> None:
    script(EXAMINE, "values", PT_HPU_LAZY_MODE="0")


@pytest.mark.parametrize("mode", ["0", "1"])
def test_without_numerics_shapes_types_and_strides_are_the_same(script: Script, mode: str) -> None:
    script(EXAMINE, "layouts", PT_HPU_LAZY_MODE=mode, HPUCLUSTER_NUMERICS="off", HABANA_PGM_LRU_MAX="100")
