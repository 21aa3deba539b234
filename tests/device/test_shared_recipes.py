"""Recipes that are not compiled: from the cache on disk, and within a bucket of dynamic shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..conftest import Script

SHAPES = """
import torch, habana_frameworks.torch.core as htcore
from habana_frameworks.torch.hpu.metrics import metric_global

for n in (3, 4, 5):
    assert (torch.ones(n).to("hpu") * 2 + 1).cpu().tolist() == [3] * n
print(dict(metric_global("graph_compilation").stats())["TotalNumber"])
"""

SWEEP = """
import torch, habana_frameworks.torch.core as htcore
from habana_frameworks.torch.hpu.metrics import metric_localcontext

def sweep(first):
    with metric_localcontext("graph_compilation") as metric:
        for n in range(first, first + 5):
            assert (torch.ones(n, 3).to("hpu") * 2).sum().item() == 6 * n
    return dict(metric.stats())["TotalNumber"]

counts = []
torch.hpu.disable_dynamic_shape()
counts.append(sweep(4))
torch.hpu.enable_dynamic_shape()
assert torch.hpu.get_dynamic_shape_status()
counts.append(sweep(24))
with torch.hpu.graph(torch.hpu.HPUGraph()):
    torch.ones(3, device="hpu") * 2
assert not torch.hpu.get_dynamic_shape_status()
counts.append(sweep(40))
print(counts)
"""


def test_a_second_run_compiles_nothing_until_the_folder_is_emptied(script: Script, tmp_path: Path) -> None:
    counts = [
        script(SHAPES, PT_HPU_RECIPE_CACHE_CONFIG=f"{tmp_path / 'cache'},{delete},1024").stdout.strip()
        for delete in ("False", "False", "True")
    ]
    assert counts == ["3", "0", "3"]


def test_dynamic_shapes_compile_for_a_range_until_a_graph_is_captured(script: Script) -> None:
    assert script(SWEEP).stdout.strip() == "[5, 2, 5]"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PT_HPU_RECIPE_CACHE_CONFIG", "/tmp,false"),
        ("PT_HPU_DYNAMIC_MIN_POLICY_ORDER", "4,5"),
        ("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES", "maybe"),
    ],
)
def test_a_bad_setting_ends_the_script_with_its_name(script: Script, name: str, value: str) -> None:
    done = script(SHAPES, check=False, **{name: value})
    assert done.returncode != 0
    assert any("ConfigurationError" in line and value in line for line in done.stderr.splitlines())


EVICTED = """
    import gc
    import torch
    import habana_frameworks.torch.core as htcore
    from device.card import current_card

    names = []
    for size in range(1, 30):
        x = torch.ones(size).to("hpu") + 1
        htcore.mark_step()
        names.append(current_card().recipes.graphs.latest().recipe.name)
    gc.collect()
    print([names.index(name) for name in names if current_card().recipe(name) is not None])
"""


def test_recipes_that_left_the_cache_leave_memory(script: Script) -> None:
    assert script(EVICTED, HABANA_PGM_LRU_MAX="3").stdout.splitlines()[-1] == "[26, 27, 28]"
