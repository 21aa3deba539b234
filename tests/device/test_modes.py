"""Eager and lazy mode, software releases, numerics off, and the example's numbers in each."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

PARITY = f"""
    import sys; sys.path.insert(0, {str(EXAMPLES)!r})
    import argparse, torch, mnist
    import torch.nn.functional as F
    import habana_frameworks.torch.core as htcore
    train_set, _ = mnist.datasets(argparse.Namespace(data_path="none", train_samples=64 * 50, seed=1))

    def losses(device):
        torch.manual_seed(0)
        model = mnist.Net(dropout=0.0).to(device)
        optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
        found = []
        for step in range(50):
            data, target = (t[step * 64 : step * 64 + 64].to(device) for t in train_set.tensors)
            optimizer.zero_grad()
            loss = F.nll_loss(model(data), target)
            loss.backward()
            optimizer.step()
            htcore.mark_step()
            found.append(loss.item())
        return found

    for got, wanted in zip(losses("hpu"), losses("cpu")):
        assert abs(got - wanted) <= 1e-5 * abs(wanted), (got, wanted)
    """


@pytest.mark.slow
@pytest.mark.parametrize("lazy", ["1", "0"])
def test_fifty_steps_of_the_example_give_the_cpus_losses(script, lazy: str) -> None:
    script(PARITY, PT_HPU_LAZY_MODE=lazy)


def test_eager_mode_computes_at_once_and_compiles_no_graph(script) -> None:
    done = script(
        """
        import torch
        from habana_frameworks.torch.hpu.metrics import metric_global
        from device.card import current_card
        for _ in range(3):
            x = torch.ones(4, device="hpu") * 2 + 1
            assert x.cpu().tolist() == [3] * 4
        kernels = current_card().recipes.kernels
        print(dict(metric_global("graph_compilation").stats())["TotalNumber"], kernels.misses, kernels.hits)
        """,
        PT_HPU_LAZY_MODE="0",
    )
    assert done.stdout.split() == ["0", "3", "6"]  # fill, mul and add, each compiled once


def test_step_marks_in_eager_mode_warn_once_and_do_nothing(script) -> None:
    done = script(
        """
        import habana_frameworks.torch.core as htcore
        for _ in range(5):
            assert htcore.mark_step() is None
        """,
        PT_HPU_LAZY_MODE="0",
    )
    text = "Calling mark_step function does not have any effect. It's lazy mode only functionality."
    assert done.stderr.count(text) == 1


@pytest.mark.parametrize(
    ("environ", "lazy"),
    [
        ({"PT_HPU_LAZY_MODE": ""}, True),
        ({"PT_HPU_LAZY_MODE": "", "HPUCLUSTER_SOFTWARE": "1.22.0"}, False),
        ({"PT_HPU_LAZY_MODE": "1", "HPUCLUSTER_SOFTWARE": "1.22.0"}, True),
        ({"PT_HPU_LAZY_MODE": "0"}, False),
    ],
)
def test_the_mode_is_that_of_the_import(script, environ: dict[str, str], lazy: bool) -> None:
    done = script(
        """
        import os, torch
        from habana_frameworks.torch.utils.internal import is_lazy
        os.environ["PT_HPU_LAZY_MODE"] = "0" if is_lazy() else "1"  # too late
        print(is_lazy())
        """,
        **environ,
    )
    assert done.stdout.split() == [str(lazy)]


def test_numerics_off_keeps_time_memory_and_compilations(script) -> None:
    code = """
        import json, torch
        from device.card import current_card
        model = torch.nn.Linear(64, 64).to("hpu")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        import habana_frameworks.torch.core as htcore
        for _ in range(4):
            model(torch.ones(8, 64).to("hpu")).sum().backward()
            optimizer.step()
            htcore.mark_step()
        torch.hpu.synchronize()
        print(json.dumps(current_card().report()))
        """
    on, off = script(code).stdout, script(code, HPUCLUSTER_NUMERICS="off").stdout
    assert on == off


def test_the_report_is_the_same_on_every_run(fresh_script) -> None:
    code = """
        import json, torch
        from device.card import current_card
        for n in (3, 4, 3):
            (torch.rand(n, device="hpu") * 2).sum().item()
        print(json.dumps(current_card().report()))
        """
    assert fresh_script(code).stdout == fresh_script(code).stdout


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PT_HPU_LAZY_MODE", "7"),
        ("HPUCLUSTER_SOFTWARE", "new"),
        ("HPUCLUSTER_NUMERICS", "maybe"),
        ("HPUCLUSTER_CARD", "gaudi9"),
    ],
)
def test_a_bad_variable_is_named(script, variable: str, value: str) -> None:
    done = script("import torch; torch.ones(1, device='hpu').cpu()", check=False, **{variable: value})
    assert done.returncode != 0
    assert value in done.stderr
