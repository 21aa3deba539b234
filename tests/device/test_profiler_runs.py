"""Profiles of whole processes: by the environment, and by calls in the script."""

from __future__ import annotations

from pathlib import Path

from .profiler_card import events, named

TRAIN = """
import shutil, sys
import torch
import habana_frameworks.torch.core as htcore
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to("hpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step(batch=8):
    optimizer.zero_grad()
    loss = model(torch.ones(batch, 16).to("hpu")).sum()
    loss.backward()
    htcore.mark_step()
    optimizer.step()
    htcore.mark_step()
    return loss.item()
"""


CALLS = """
from habana_frameworks.torch.utils import profiler
profiler._start_profiler()
step()
profiler._stop_profiler()
"""


def trace_of(folder: Path) -> Path:
    (path,) = folder.glob("default_profiling_*")
    return path


def test_a_whole_run_without_touching_the_script(fresh_script, tmp_path: Path) -> None:
    texts = []
    for number, code in enumerate(("step(); step(); step()", "step()" + CALLS + "step()")):
        folder = tmp_path / str(number)
        folder.mkdir()
        done = fresh_script(TRAIN + code, folder=folder, HABANA_PROFILE="1")
        assert done.stderr.count("calls that start and stop it have no effect") == number
        path = trace_of(folder)
        found = events(path)
        assert {event["args"]["engine"] for event in found if event.get("cat") == "Kernel"} >= {"MME", "TPC"}
        assert len(named(found, "compile")) >= 2 and named(found, "MemcpyH2D")
        wheres = {event["args"]["where"].partition(":")[0] for event in found if event.get("cat") == "Kernel"}
        assert wheres == {"script.py"}
        texts.append(path.read_text())
    assert texts[0] == texts[1]  # modelled time is the same on any machine, under any load


def test_eager_mode(script, tmp_path: Path) -> None:
    script(TRAIN + "step()", HABANA_PROFILE="1", PT_HPU_LAZY_MODE="0")
    found = events(trace_of(tmp_path))
    assert len(named(found, "eager operator")) > 10 and named(found, "LaunchRecipeTask", "B")


def test_a_run_that_does_not_use_the_card_writes_nothing(script, tmp_path: Path) -> None:
    script("import torch, habana_frameworks.torch; torch.ones(2).sum()", HABANA_PROFILE="1")
    assert not list(tmp_path.glob("*profiling*"))


def test_chosen_iterations_by_calls(script, tmp_path: Path) -> None:
    code = """
from habana_frameworks.torch.utils.profiler import _setup_profiler, _start_profiler, _stop_profiler
from habana_frameworks.torch.profiler import start_profiler, stop_profiler
from habana_frameworks.torch.low_overhead_profiler import profiler
from habana_frameworks.torch.internal.synrec_helper import synrec_start
import warnings
synrec_start()
_setup_profiler()
for iteration in range(14):
    if iteration == 2: _start_profiler()
    if iteration == 6: profiler.start()
    if iteration == 12:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            start_profiler()
        assert "deprecated" in str(caught[0].message), caught
    step(8 + iteration)
    if iteration == 2: _stop_profiler()
    if iteration == 6: profiler.flush(); profiler.stop()
    if iteration == 12: stop_profiler()
"""
    done = script(TRAIN + code)
    assert "synrec_start has no effect" in done.stderr
    found = events(trace_of(tmp_path))
    copied = [event["args"]["bytes"] for event in named(found, "MemcpyH2D")]
    assert copied == [4 * 16 * (8 + iteration) for iteration in (2, 6, 12)]


def test_calls_before_the_card_is_used(script, tmp_path: Path) -> None:
    code = "from habana_frameworks.torch.utils import profiler; profiler._start_profiler()\n" + TRAIN + "step()"
    script(code)
    assert len(named(events(trace_of(tmp_path)), "MemcpyH2D")) == 5  # four parameters and the batch


def test_calls_are_refused_and_say_so(script, tmp_path: Path) -> None:
    assert "HABANA_PROFILE=0: profiling of the card is off" in script(TRAIN + CALLS, HABANA_PROFILE="0").stderr
    assert not list(tmp_path.glob("*profiling*"))


def test_training_goes_on_where_the_folder_vanishes(script, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    code = f"import os; os.makedirs({str(folder)!r}); os.chdir({str(folder)!r})\n" + TRAIN
    code += f"step(); shutil.rmtree({str(folder)!r}); print(step() < step())"
    done = script(code, HABANA_PROFILE="1")
    assert done.stdout == "False\n" and done.stderr.count("profiler: cannot write") == 1
    assert "Traceback" not in done.stderr and not folder.exists()
