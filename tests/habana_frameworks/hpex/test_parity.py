"""Fused kernels and optimizers equal their plain formulas, in lazy and in eager mode, at their own rate of nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..fused_parity import CHECKS

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("name", CHECKS)
def test_equals_its_formula_in_lazy_mode(name: str) -> None:
    CHECKS[name]()


def test_all_equal_their_formulas_in_eager_mode(script) -> None:
    script(
        f"""
        import sys
        sys.path.insert(0, {str(HERE.parent)!r})
        import fused_parity
        for check in fused_parity.CHECKS.values():
            check()
        """,
        PT_HPU_LAZY_MODE="0",
    )
