"""The strict switch: what the card does without a word is noted, or an error."""

from __future__ import annotations

import pytest
import torch

from device import flags, strict
from device.backend.overflow import OverflowCheck

LOWEST = torch.finfo(torch.float32).min


@pytest.fixture
def switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(flags._values, strict.SWITCH, True)


def test_a_mode_variable_that_changes_after_the_import_is_noted_once(script) -> None:
    code = """
        import os, habana_frameworks.torch
        from habana_frameworks.torch.utils.internal import is_lazy
        os.environ["PT_HPU_LAZY_MODE"] = "1"
        for _ in range(2):
            os.environ["PT_HPU_LAZY_MODE"] = "0"
        print(is_lazy())
        """
    done = script(code, HPUCLUSTER_STRICT="0")
    assert done.stdout == "True\n"
    notes = [line for line in done.stderr.splitlines() if line.startswith("hpu: ")]
    assert len(notes) == 1
    assert notes[0].startswith("hpu: script.py:6 changes PT_HPU_LAZY_MODE to 0, which has no effect in this process")
    refused = script(code, HPUCLUSTER_STRICT="1", check=False)
    assert refused.returncode == 1
    assert "StrictError: script.py:6 changes PT_HPU_LAZY_MODE" in refused.stderr


@pytest.mark.usefixtures("switched_on")
def test_a_number_that_becomes_infinite_under_autocast() -> None:
    mask = torch.ones(2, 3, device="hpu")
    with OverflowCheck(["mul"]), torch.autocast("hpu", dtype=torch.bfloat16):
        for overflowing in (lambda: mask * LOWEST, lambda: LOWEST * mask, lambda: torch.mul(mask, LOWEST)):
            with pytest.raises(strict.StrictError, match=r"use torch\.finfo\(torch\.bfloat16\)\.min"):
                overflowing()
        fits = mask * torch.finfo(torch.bfloat16).min
        with torch.autocast("hpu", enabled=False):
            wide = mask * LOWEST
        other = mask + LOWEST
    assert all(result.isfinite().all() for result in (fits, wide, other))


def test_without_the_switch_it_is_infinite() -> None:
    mask = torch.ones(2, 3, device="hpu")
    with OverflowCheck(["mul"]), torch.autocast("hpu", dtype=torch.bfloat16):
        assert (mask * LOWEST).isinf().all()


def test_notes_are_said_once_for_a_topic(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        strict.note("topic of this test", "something happens")
    assert capsys.readouterr().err == "hpu: something happens\n"


@pytest.mark.usefixtures("switched_on")
def test_notes_are_errors_each_time() -> None:
    for _ in range(2):
        with pytest.raises(strict.StrictError, match=r"something happens \(HPUCLUSTER_STRICT=1\)"):
            strict.note("another topic", "something happens")
