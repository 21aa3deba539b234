"""The `hccl` backend and the environment of a rank."""

from __future__ import annotations

import os

# Their package is imported whole, while its names are ours.
from collectives.api import distributed_emulation_apply_if_enabled, register
from device.errors import ConfigurationError
from device.modules import visible_modules

_DEFAULTS = {"MASTER_ADDR": "localhost", "MASTER_PORT": "12345"}


def _from_mpi() -> None:
    names = ("RANK", "LOCAL_RANK", "SIZE")
    ours = {"RANK": "RANK", "LOCAL_RANK": "LOCAL_RANK", "SIZE": "WORLD_SIZE"}
    if all(ours[name] in os.environ for name in names):
        return
    if all(f"OMPI_COMM_WORLD_{name}" in os.environ for name in names):
        for name in names:
            os.environ[ours[name]] = os.environ[f"OMPI_COMM_WORLD_{name}"]


def _number(name: str, default: int) -> int:
    given = os.environ.get(name, "").strip()
    try:
        return int(given) if given else default
    except ValueError as error:
        raise ConfigurationError(
            f"{name}={given!r} is not a whole number; launchers (torchrun, mpirun, hpurun) set it, and a process "
            "on its own needs none"
        ) from error


def initialize_distributed_hpu(
    world_size: int | None = None, rank: int | None = None, local_rank: int | None = None
) -> tuple[int, int, int]:
    """(world size, rank, local rank) of this process, from the arguments, else the environment (torchrun, OpenMPI).

    Sets HLS_MODULE_ID, the module that the process acquires, ID, and MASTER_ADDR and MASTER_PORT where they are unset.
    A single process gives (1, -1, -1) and sets nothing.

    Raises:
        RuntimeError: more local ranks than visible modules.
        ConfigurationError: a variable among them is no number.
    """
    _from_mpi()
    given = (("WORLD_SIZE", world_size), ("RANK", rank), ("LOCAL_RANK", local_rank))
    for name, value in given:
        if value is not None:
            os.environ[name] = str(value)
    size, own, local = _number("WORLD_SIZE", 1), _number("RANK", -1), _number("LOCAL_RANK", -1)
    if size <= 1 or own < 0 or local < 0:
        return 1, -1, -1
    for name, default in _DEFAULTS.items():
        os.environ.setdefault(name, default)
    modules = visible_modules()
    if "HABANA_VISIBLE_MODULES" in os.environ:
        if local >= len(modules):
            raise RuntimeError(
                f"There is not enough devices: local rank {local} needs {local + 1} modules, "
                f"HABANA_VISIBLE_MODULES={os.environ['HABANA_VISIBLE_MODULES']} has {len(modules)}"
            )
        os.environ["HLS_MODULE_ID"] = str(modules[local])
    else:
        os.environ["HLS_MODULE_ID"] = str(local)
    os.environ["ID"] = str(own)
    return size, own, local


distributed_emulation_apply_if_enabled()
register()
initialize_distributed_hpu()
