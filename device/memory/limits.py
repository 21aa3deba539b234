"""How large the pool is, from the card and the environment.

    PT_HPU_POOL_STRATEGY            4; others are not modelled
    PT_HABANA_POOL_SIZE             GiB; the default, 24, and more than the card has both mean: a share of what is free
    PT_HPU_POOL_MEM_ACQUIRE_PERC    that share in percent, 100
    PT_HCCL_MEMORY_ALLOWANCE_MB     MiB left out of that share for collectives, in jobs of several ranks
    PT_HPU_INITIAL_WORKSPACE_SIZE   GiB; 0 means 4 MiB
    PT_ENABLE_MEMORY_DEFRAGMENTATION, PT_ENABLE_WORKSPACE_MEMORY_SHRINK    on

Source: HabanaAI/gaudi-pytorch-bridge 1.19, scripts/env_flags.yaml and CoalescedStringentPoolAllocator.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..environment import flag, number
from ..errors import ConfigurationError
from ..spec import CardSpec
from .pool import RESERVED_BYTES

INITIAL_WORKSPACE = 4 * 2**20
GIB, MIB = 2**30, 2**20
STRATEGY = 4
SHARE_OF_FREE = 24  # PT_HABANA_POOL_SIZE: this value stands for "not set"


@dataclass(frozen=True)
class PoolLimits:
    """Bytes that the process takes from the card, its first workspace, and what the pool may do when it runs short."""

    limit: int
    initial_workspace: int = INITIAL_WORKSPACE
    defragment: bool = True
    shrink_workspace: bool = True


def _within(name: str, default: int, lowest: int, highest: int, unit: str) -> int:
    value = number(name, default)
    if not lowest <= value <= highest:
        raise ConfigurationError(f"{name}={value} is not possible; use {lowest} to {highest} {unit}, or unset it")
    return value


def read_limits(spec: CardSpec) -> PoolLimits:
    """The limits of this process.

    Raises:
        ConfigurationError: a value that cannot be used, or that leaves no room for tensors; it is named.
    """
    strategy = number("PT_HPU_POOL_STRATEGY", STRATEGY)
    if strategy != STRATEGY:
        raise ConfigurationError(
            f"PT_HPU_POOL_STRATEGY={strategy} is not modelled; use {STRATEGY} (best fit with coalescing), or unset it"
        )
    available = spec.hbm.pool_bytes
    asked = _within("PT_HABANA_POOL_SIZE", SHARE_OF_FREE, 1, 2**20, "GB")
    percent = _within("PT_HPU_POOL_MEM_ACQUIRE_PERC", 100, 1, 100, "percent")
    allowance = 0
    limit = asked * GIB
    if asked == SHARE_OF_FREE or limit > available:
        if number("WORLD_SIZE", 1) > 1:
            allowance = _within("PT_HCCL_MEMORY_ALLOWANCE_MB", 0, 0, available // MIB, "MB") * MIB
        limit = available * percent // 100 - allowance
    workspace = _within("PT_HPU_INITIAL_WORKSPACE_SIZE", 0, 0, available // GIB, "GB") * GIB or INITIAL_WORKSPACE
    if limit <= RESERVED_BYTES + workspace:
        raise ConfigurationError(
            f"a pool of {limit} bytes leaves no room for tensors beside a workspace of {workspace}; take more of the "
            f"{available} bytes of {spec.name} (PT_HPU_POOL_MEM_ACQUIRE_PERC={percent}), leave less to collectives "
            f"(PT_HCCL_MEMORY_ALLOWANCE_MB={allowance // MIB}), or lower PT_HPU_INITIAL_WORKSPACE_SIZE"
        )
    return PoolLimits(
        limit=limit,
        initial_workspace=workspace,
        defragment=flag("PT_ENABLE_MEMORY_DEFRAGMENTATION", True),
        shrink_workspace=flag("PT_ENABLE_WORKSPACE_MEMORY_SHRINK", True),
    )
