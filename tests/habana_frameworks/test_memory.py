"""`torch.hpu`'s memory functions on a real card: figures by hand, and running out of memory and going on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import habana_frameworks.torch.hpu as hpu
from device.description import configs_dir

MIB = 2**20

FUNCTIONS = [
    "memory_stats", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
    "memory_usage", "mem_get_info", "memory_summary", "reset_peak_memory_stats", "reset_accumulated_memory_stats",
]  # fmt: skip


def card_with(room: int, folder: Path) -> str:
    """The file of a card whose pool has `room` bytes."""
    lines = (configs_dir() / "cards" / "gaudi2.toml").read_text(encoding="utf-8").splitlines()
    changed = [f"pool_bytes = {room}" if line.startswith("pool_bytes") else line for line in lines]
    path = folder / "card.toml"
    path.write_text("\n".join(changed), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_card_that_is_not_ours(name: str) -> None:
    with pytest.raises(AssertionError, match="Invalid device id"):
        getattr(hpu, name)(99)


def test_old_names_warn() -> None:
    for name in ("memory_cached", "max_memory_cached"):
        with pytest.warns(FutureWarning, match="memory_reserved"):
            assert getattr(hpu.memory, name)() == hpu.memory_reserved()


def test_no_empty_cache() -> None:
    assert not hasattr(torch.hpu, "empty_cache")


def test_figures_agree() -> None:
    stats = hpu.memory_stats()
    assert all(type(value) is int for value in stats.values())
    assert hpu.memory_allocated() == hpu.memory_usage() == stats["InUse"]
    assert hpu.max_memory_allocated() == stats["MaxInUse"]
    assert hpu.memory_reserved() == hpu.max_memory_reserved() == stats["Limit"]
    assert hpu.mem_get_info() == (stats["Limit"] - stats["InUse"], stats["Limit"])
    extended = hpu.memory._extended_memory_summary_dict()
    assert extended["persistent"] + extended["workspace"] == extended["in_use"] == stats["InUse"]
    assert extended["max_cntgs_chunk"] <= stats["Limit"] - stats["InUse"]


def test_the_table() -> None:
    edge, title, rule, *rows = hpu.memory_summary().splitlines()
    assert edge == "|" + "=" * 52 + "|"
    assert title.strip("| ") == "PyTorch HPU memory summary, device ID 0"
    assert rule == "|" + "-" * 52 + "|"
    stats = hpu.memory_stats()
    assert rows[0] == f"  Limit:             {stats['Limit']:>20} ({stats['Limit'] / 2**30:.2f} GB)"
    names = [row.split(":")[0].strip() for row in rows if row]
    assert names == ["Limit", "InUse", "MaxInUse", "NumAllocs", "NumFrees", "MaxAllocSize", "ActiveAllocs"]
    assert "max_cntgs_chunk" in hpu.memory._extended_memory_summary()


TWO_LAYERS = """
    import torch
    import habana_frameworks.torch.core as htcore
    from device.card import current_card

    batch, wide, hidden, out = 256, 256, 512, 128
    net = torch.nn.Sequential(
        torch.nn.Linear(wide, hidden, bias=False), torch.nn.ReLU(), torch.nn.Linear(hidden, out, bias=False)
    ).to("hpu")
    optimizer = torch.optim.Adam(net.parameters())
    start = torch.hpu.memory_allocated()
    for step in range(4):
        x = torch.randn(batch, wide).to("hpu")
        prediction = net(x)
        loss = prediction.square().mean()
        htcore.mark_step()
        loss.backward()
        optimizer.step()
        htcore.mark_step()
        optimizer.zero_grad()

    reserve, workspace = 128 + 6 * 1024 * 128, 4 * 2**20
    weights = 4 * (wide * hidden + hidden * out)
    assert start == reserve + workspace + weights, start

    by_hand = {
        "weights": weights,
        "gradients": weights,
        "optimizer_state": 2 * weights,
        "activations": 4 * batch * (hidden + out),  # relu's result and the prediction; the loss is in the reserve
        "other": reserve + 4 * batch * wide,
        "workspace": workspace,
    }
    assert torch.hpu.max_memory_allocated() == sum(by_hand.values()), torch.hpu.memory_stats()
    memory = current_card().memory
    first, *_ = [row for row in memory.timeline(0.0) if row["gradients"]]  # of step 0: corrected in hindsight
    assert {name: first[name] for name in by_hand} == by_hand, first
    assert first["in_use"] == memory.at_peak()["in_use"] == sum(by_hand.values())
"""


@pytest.mark.parametrize("numerics", ["on", "off"])
def test_a_network_of_two_layers_takes_what_it_takes_by_hand(script, numerics: str) -> None:
    script(TWO_LAYERS, PT_HPU_LAZY_MODE="1", HPUCLUSTER_NUMERICS=numerics)


def test_half_of_a_batch_that_does_not_fit_runs_in_the_same_process(script, tmp_path: Path) -> None:
    script(
        """
        import gc
        import torch
        import habana_frameworks.torch.core as htcore
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(2048, 256), torch.nn.ReLU(), torch.nn.Linear(256, 16))
        net = net.to("hpu")  # line 7
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

        def step(batch):
            x = torch.randn(batch, 2048).to("hpu")  # line 11
            loss = net(x).square().mean()
            htcore.mark_step()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.item()

        before = torch.hpu.memory_allocated()
        try:
            step(4096)
            raise SystemExit("no error")
        except torch.OutOfMemoryError as error:
            assert len(error.args) == 1
            text = str(error)
        lines = text.splitlines()
        assert lines[0].startswith("FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::4194304 (4)MB "), text
        assert lines[3:6] == [
            "  33554432 bytes (32.00 MB): other, Float [4096, 2048] from script.py:11",
            "  2097152 bytes (2.00 MB): weights, Float [256, 2048] from script.py:7",
            "  16384 bytes (16.00 KB): weights, Float [16, 256] from script.py:7",
        ], text
        assert any(line.startswith("operator at the peak: aten::") and "script.py:12" in line for line in lines), text
        assert torch.hpu.memory_allocated() == before, (torch.hpu.memory_allocated(), before)
        losses = [step(2048) for _ in range(3)]
        assert losses[2] < losses[0]
        """,
        HPUCLUSTER_CARD=card_with(40 * MIB, tmp_path),
        PT_HPU_LAZY_MODE="1",
    )


def test_a_copy_that_does_not_fit(script, tmp_path: Path) -> None:
    script(
        """
        import torch
        first = torch.ones(8 * 2**20 // 4).to("hpu")
        try:
            torch.ones(16 * 2**20 // 4).to("hpu")
            raise SystemExit("no error")
        except torch.OutOfMemoryError as error:
            assert "size::16777216 (16)MB [Rank:0] while running copy to the card" in str(error), error
            assert "8388608 bytes (8.00 MB): other, Float [2097152] from script.py:3" in str(error), error
        del first
        assert torch.ones(16 * 2**20 // 4).to("hpu").sum().item() == 4 * 2**20
        """,
        HPUCLUSTER_CARD=card_with(24 * MIB, tmp_path),
    )


def test_moving_tensors_together_takes_time_and_is_told(script, tmp_path: Path) -> None:
    script(
        """
        import torch
        from device.card import current_card
        from habana_frameworks.torch.hpu.metrics import metric_global
        metric = metric_global("memory_defragmentation")
        # 16 tensors of 1 MB, of which every other goes: 8 MB and a little are free, in holes of 1 MB
        tensors = [torch.full((2**18,), float(number)).to("hpu") for number in range(16)]
        torch.hpu.synchronize()
        del tensors[::2]
        torch.hpu.synchronize()
        large = torch.zeros(2**20, device="hpu")
        torch.hpu.synchronize()
        assert dict(metric.stats())["TotalSuccessful"] == 1, metric.stats()
        assert [tensor[0].item() for tensor in tensors] == [1, 3, 5, 7, 9, 11, 13, 15]
        """,
        HPUCLUSTER_CARD=card_with(128 + 6 * 1024 * 128 + 4 * MIB + 18 * MIB, tmp_path),
        PT_HPU_LAZY_MODE="1",
    )


@pytest.mark.parametrize(("name", "value"), [("PT_HPU_POOL_MEM_ACQUIRE_PERC", "-5"), ("PT_HABANA_POOL_SIZE", "0")])
def test_a_limit_that_cannot_be(script, name: str, value: str) -> None:
    done = script("import torch; torch.ones(3).to('hpu')", check=False, **{name: value})
    assert done.returncode != 0 and f"{name}={value} is not possible" in done.stderr
