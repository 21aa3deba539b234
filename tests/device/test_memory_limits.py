"""How large the pool is: the card's, and what the environment asks for."""

from __future__ import annotations

import pytest

from device.errors import ConfigurationError
from device.memory import INITIAL_WORKSPACE, PoolLimits, read_limits
from device.spec import load_card

GAUDI2 = load_card("gaudi2")
GIB = 2**30


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "PT_HPU_POOL_STRATEGY", "PT_HABANA_POOL_SIZE", "PT_HPU_POOL_MEM_ACQUIRE_PERC"):
        monkeypatch.delenv(name, raising=False)


def test_the_process_takes_all_of_the_card() -> None:
    assert read_limits(GAUDI2) == PoolLimits(GAUDI2.hbm.pool_bytes, INITIAL_WORKSPACE, True, True)


def test_a_share_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PT_HPU_POOL_MEM_ACQUIRE_PERC", "50")
    assert read_limits(GAUDI2).limit == GAUDI2.hbm.pool_bytes // 2


def test_a_fixed_size_in_gb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PT_HABANA_POOL_SIZE", "10")
    assert read_limits(GAUDI2).limit == 10 * GIB
    monkeypatch.setenv("PT_HABANA_POOL_SIZE", "24")  # the default: not fixed
    assert read_limits(GAUDI2).limit == GAUDI2.hbm.pool_bytes
    monkeypatch.setenv("PT_HABANA_POOL_SIZE", "1000")  # more than there is
    assert read_limits(GAUDI2).limit == GAUDI2.hbm.pool_bytes


def test_room_for_collectives_in_jobs_of_several_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PT_HCCL_MEMORY_ALLOWANCE_MB", "384")
    assert read_limits(GAUDI2).limit == GAUDI2.hbm.pool_bytes
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert read_limits(GAUDI2).limit == GAUDI2.hbm.pool_bytes - 384 * 2**20


def test_the_first_workspace_and_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PT_HPU_INITIAL_WORKSPACE_SIZE", "2")
    monkeypatch.setenv("PT_ENABLE_MEMORY_DEFRAGMENTATION", "false")
    monkeypatch.setenv("PT_ENABLE_WORKSPACE_MEMORY_SHRINK", "0")
    assert read_limits(GAUDI2) == PoolLimits(GAUDI2.hbm.pool_bytes, 2 * GIB, False, False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PT_HPU_POOL_STRATEGY", "0"),
        ("PT_HABANA_POOL_SIZE", "0"),
        ("PT_HABANA_POOL_SIZE", "-24"),
        ("PT_HPU_POOL_MEM_ACQUIRE_PERC", "-1"),
        ("PT_HPU_POOL_MEM_ACQUIRE_PERC", "101"),
        ("PT_HPU_POOL_MEM_ACQUIRE_PERC", "half"),
        ("PT_HPU_INITIAL_WORKSPACE_SIZE", "-1"),
        ("PT_HPU_INITIAL_WORKSPACE_SIZE", "200"),
        ("PT_HCCL_MEMORY_ALLOWANCE_MB", "-16"),
        ("PT_HCCL_MEMORY_ALLOWANCE_MB", "9999999"),
    ],
)
def test_a_value_that_cannot_be_is_named(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"{name}='?{value}"):
        read_limits(GAUDI2)


def test_no_room_for_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PT_HPU_POOL_MEM_ACQUIRE_PERC", "1")
    monkeypatch.setenv("PT_HPU_INITIAL_WORKSPACE_SIZE", "1")
    with pytest.raises(ConfigurationError, match=r"leaves no room for tensors .* PT_HPU_INITIAL_WORKSPACE_SIZE"):
        read_limits(GAUDI2)
