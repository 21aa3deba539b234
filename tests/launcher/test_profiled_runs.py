"""Traces of real runs: what holds up what, and how they look in a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from launcher.perf_tool.command import command
from launcher.prof_config.command import command as hl_prof_config

from ..conftest import ROOT, Script
from .chromium import Chromium
from .test_hltv import TRACK, serving

EXAMPLE = ROOT / "examples" / "mnist.py"

MODEL = """
import sys
import torch
import habana_frameworks.torch as ht
import habana_frameworks.torch.core as htcore

size, replayed = int(sys.argv[1]), "replayed" in sys.argv
layers = [layer for _ in range(6) for layer in (torch.nn.Linear(size, size), torch.nn.Tanh())]
model = torch.nn.Sequential(*layers).to("hpu").eval()
x = torch.randn(size, size).to("hpu")
if replayed:
    model = ht.hpu.wrap_in_hpu_graph(model)
with torch.no_grad():
    for _ in range(20):
        y = model(x)
        htcore.mark_step()
torch.hpu.synchronize()
"""


def profiled(script: Script, folder: Path, *arguments: str, code: str = MODEL) -> Path:
    """The trace of a whole run, for which two environment variables are all that is needed."""
    folder.mkdir()
    settings = folder / "prof_config.json"
    result = CliRunner().invoke(hl_prof_config, ["-e", "off", "-s", "run", "--config-filename", str(settings)])
    assert result.exit_code == 0, result.output
    environ = {"HABANA_PROFILE": "1", "HABANA_PROF_CONFIG": str(settings), "HPUCLUSTER_NUMERICS": "off"}
    script(code, *arguments, folder=folder, **environ)
    (trace,) = folder.glob("run_*.json")
    return trace


def verdict(trace: Path) -> tuple[str, float]:
    """The tool's label, and the share of the time in which the HPU waited for the host."""
    result = CliRunner().invoke(command, ["--trace", str(trace), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    return found["verdict"], found["idle_while_host_works_share"]


@pytest.mark.slow
def test_host_or_hpu_is_the_bottleneck(script: Script, tmp_path: Path) -> None:
    small, waiting = verdict(profiled(script, tmp_path / "small", "128"))
    assert (small, waiting > 0.5) == ("host-bound", True)
    replayed, remaining = verdict(profiled(script, tmp_path / "replayed", "128", "replayed"))
    assert (replayed, remaining < 0.05) == ("HPU-bound", True)
    large, waiting = verdict(profiled(script, tmp_path / "large", "2048"))
    assert (large, waiting < 0.01) == ("HPU-bound", True)


@pytest.mark.slow
def test_the_example_s_profile_in_a_browser(script: Script, tmp_path: Path) -> None:
    trace = profiled(script, tmp_path / "run", "--hpu", "--train-samples", "320", code=EXAMPLE.read_text())
    with serving(str(trace), "--port", "0") as url, Chromium(tmp_path) as browser:
        browser.open(url)
        for name in ("MME", "TPC", "DMA", "host", "MME0", "TPC0"):
            browser.wait_for(TRACK.format(name=name))
        assert "import error" not in browser.evaluate("document.body.innerText")
