"""The bridge's Python names: importing, probing, ranks."""

from __future__ import annotations

import importlib.util

import pytest
import torch

import habana_frameworks.torch.core as htcore


@pytest.mark.parametrize(
    "name",
    [
        "habana_frameworks",
        "habana_frameworks.torch",
        "habana_frameworks.torch.core",
        "habana_frameworks.torch.hpu",
        "habana_frameworks.torch.hpu.metrics",
        "habana_frameworks.torch.distributed.hccl",
    ],
)
def test_modules_are_found(name: str) -> None:
    assert importlib.util.find_spec(name) is not None


def test_import_torch_alone_gives_the_device(fresh_script) -> None:
    done = fresh_script(
        "import torch; x = torch.ones(3, device='hpu'); "
        "print((x + 1).sum().item(), torch.hpu.device_count(), torch.accelerator.current_accelerator())"
    )
    assert done.stdout == "6.0 8 hpu\n"


@pytest.mark.parametrize("variable", ["PT_HPU_AUTOLOAD", "TORCH_DEVICE_BACKEND_AUTOLOAD"])
def test_autoload_can_be_turned_off(fresh_script, variable: str) -> None:
    fresh_script("import torch; assert not hasattr(torch, 'hpu')", **{variable: "0"})
    fresh_script("import torch, habana_frameworks.torch; assert torch.hpu.is_available()", **{variable: "0"})
    fresh_script("import habana_frameworks.torch, torch; assert torch.hpu.is_available()", **{variable: "0"})


def test_importing_and_asking_takes_no_card(fresh_script) -> None:
    fresh_script(
        """
        import torch, habana_frameworks.torch.core
        assert torch.hpu.is_available() and torch.hpu.device_count() == 8
        assert not torch.hpu.is_initialized()
        torch.ones(1, device="hpu")
        assert torch.hpu.is_initialized()
        """
    )


@pytest.mark.parametrize(("card", "name"), [("gaudi", "GAUDI"), ("gaudi2", "GAUDI2"), ("gaudi3", "GAUDI3")])
def test_device_names(script, card: str, name: str) -> None:
    done = script("import torch; print(torch.hpu.get_device_name(), torch.hpu.mem_get_info()[1])", HPUCLUSTER_CARD=card)
    assert done.stdout.split()[0] == name


def test_visible_devices(script) -> None:
    script("import torch; assert torch.hpu.device_count() == 2", HABANA_VISIBLE_DEVICES="2,5")
    script("import torch; assert not torch.hpu.is_available()", HABANA_VISIBLE_DEVICES="none")


def test_a_bad_index() -> None:
    for call in (torch.hpu.memory_stats, torch.hpu.synchronize, torch.hpu.get_device_name):
        with pytest.raises(AssertionError, match="Invalid device id 99"):
            call(99)


def test_memory_statistics_hold_together() -> None:
    hpu, gib = torch.hpu, 2**30
    hpu.synchronize()
    hpu.reset_peak_memory_stats()
    before = hpu.memory_stats()
    assert before["MaxInUse"] == before["InUse"]
    tensor = torch.zeros(gib // 64, device="hpu")
    hpu.synchronize()
    during = hpu.memory_stats()
    assert 4 * gib // 64 <= during["InUse"] - before["InUse"] < 4 * gib // 64 + 2**20
    assert during["MaxAllocSize"] >= 4 * gib // 64
    assert hpu.memory_allocated() == during["InUse"]
    assert hpu.mem_get_info() == (during["Limit"] - during["InUse"], during["Limit"])
    del tensor
    hpu.synchronize()
    after = hpu.memory_stats()
    assert after["InUse"] <= before["InUse"] + 2**20
    assert after["MaxInUse"] >= before["InUse"] + 4 * gib // 64
    assert after["ActiveAllocs"] == after["NumAllocs"] - after["NumFrees"]
    assert hpu.memory_summary().splitlines()[0] == "|" + "=" * 52 + "|"


def test_out_of_memory_is_an_error_to_recover_from(script) -> None:
    script(
        """
        import torch
        free, total = torch.hpu.mem_get_info()
        try:
            torch.empty(total, dtype=torch.float32, device="hpu").fill_(1)
            torch.hpu.synchronize()
            raise SystemExit("no error")
        except torch.OutOfMemoryError as error:
            assert len(error.args) == 1 and "MODULE:PT_DEVMEM Allocation failed for size::" in str(error), error
        assert torch.hpu.mem_get_info()[0] > 0.99 * total
        assert torch.ones(3).to("hpu").sum().item() == 3
        """
    )


def test_events_measure_modelled_milliseconds() -> None:
    start, end = torch.hpu.Event(enable_timing=True), torch.hpu.Event(enable_timing=True)
    a = torch.randn(256, 256).to("hpu")
    start.record()
    b = a
    for _ in range(5):
        b = b @ a
        htcore.mark_step()
    end.record()
    end.synchronize()
    elapsed = start.elapsed_time(end)
    assert isinstance(elapsed, float) and elapsed > 0
    assert 5 * 2 * 256**3 / (elapsed * 1e-3) < 108e12  # below the card's float32 peak
    with pytest.raises(RuntimeError, match="was not recorded"):
        start.elapsed_time(torch.hpu.Event(enable_timing=True))


def test_step_closures_run_after_the_step() -> None:
    seen = []
    htcore.add_step_closure(seen.append, (1,))
    assert seen == []
    htcore.mark_step()
    assert seen == [1]


RANK = """
import os
import habana_frameworks.torch.distributed.hccl as hccl
names = ("HLS_MODULE_ID", "MASTER_ADDR", "MASTER_PORT", "ID")
print(hccl.initialize_distributed_hpu(), *(os.environ.get(name) for name in names))
"""


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, "(1, -1, -1) None None None None"),
        (
            {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "HABANA_VISIBLE_MODULES": "4,6"},
            "(2, 1, 1) 6 localhost 12345 1",
        ),
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3", "MASTER_PORT": "5"}, "(4, 3, 3) 3 localhost 5 3"),
        (
            {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
            "(2, 1, 1) 1 localhost 12345 1",
        ),
    ],
    ids=["alone", "modules", "torchrun", "mpi"],
)
def test_the_environment_of_a_rank(script, environ: dict[str, str], wanted: str) -> None:
    assert script(RANK, **environ).stdout == wanted + "\n"


def test_more_ranks_than_modules(script) -> None:
    done = script(RANK, check=False, RANK="2", WORLD_SIZE="3", LOCAL_RANK="2", HABANA_VISIBLE_MODULES="4,6")
    assert done.returncode != 0
    assert "There is not enough devices" in done.stderr


def test_a_rank_that_is_no_number_is_named(script) -> None:
    done = script(RANK, check=False, RANK="first", WORLD_SIZE="2", LOCAL_RANK="0")
    assert done.returncode != 0
    assert "RANK='first' is not a whole number" in done.stderr


def test_the_device_module_holds_its_own_name() -> None:
    assert torch.hpu.hpu is torch.hpu and torch.hpu.hpu.memory_stats("hpu")["Limit"] > 0


def test_a_card_in_use_stays_available_when_the_build_changes(script) -> None:
    script(
        """
        import torch
        torch.ones(1, device="hpu")
        import device.backend.native as native
        native.build_key = lambda: "another"
        assert torch.hpu.is_available()
        """
    )
