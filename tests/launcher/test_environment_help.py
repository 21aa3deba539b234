"""`hpurun --env-help` and the hints about variables that do not exist."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from device import flags
from launcher import environment_help
from launcher.hpurun import command


def table(**environ: str) -> str:
    done = CliRunner().invoke(command, ["--env-help"], env=environ)
    assert done.exit_code == 0, done.output
    return done.output


def test_every_variable_stands_there_with_its_effect() -> None:
    text = table()
    for variable in flags.variables().values():
        assert f"  {variable.name}  (default " in text
        if not variable.effect:
            line = next(line for line in text.splitlines() if line.startswith(f"  {variable.name}  "))
            assert line.endswith(": accepted, no effect")


def test_values_now() -> None:
    text = table(PT_HPU_LAZY_MODE="0", PT_HPU_ENABLE_CACHE_METRICS="true", PT_COMPILE_ONLY_MODE="perhaps")
    assert "PT_HPU_LAZY_MODE  (default 1, now 0)" in text
    assert "PT_HPU_ENABLE_CACHE_METRICS  (default 0, now 1)" in text
    assert "now 'perhaps': PT_COMPILE_ONLY_MODE='perhaps' is not a boolean" in text


def test_defaults_follow_the_release() -> None:
    assert "PT_HPU_LAZY_MODE  (default 0" in table(HPUCLUSTER_SOFTWARE="1.22.0")
    done = CliRunner().invoke(command, ["--env-help"], env={"HPUCLUSTER_SOFTWARE": "new"})
    assert done.exit_code == 2


def test_a_slip_of_the_pen_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    environment_help.tell_unknown({"PT_HPU_LAZYMODE": "0", "PT_HPU_LAZY_MODE": "0"})
    assert capsys.readouterr().err == (
        "hpurun: PT_HPU_LAZYMODE is no variable of the Gaudi software, and has no effect; did you mean "
        "PT_HPU_LAZY_MODE?\n"
    )
