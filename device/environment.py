"""Environment variables of the bridge that this process started with. Read once: a later change has no effect."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .bucket_policies import Policies, read_policies
from .errors import ConfigurationError
from .recipe_store.settings import StoreSettings, read_store_settings

DEFAULT_SOFTWARE = "1.19.0"
FIRST_EAGER_SOFTWARE = (1, 20)  # from here on PT_HPU_LAZY_MODE unset means eager
NO_LIMIT = 2**63 - 1
LRU_LAZY, LRU_EAGER = 30000, 100000


def flag(name: str, default: bool, environ: Mapping[str, str] | None = None) -> bool:
    """A boolean variable: 1/true/yes/on and 0/false/no/off in any case; unset or empty is the default."""
    given = (os.environ if environ is None else environ).get(name, "")
    text = given.strip().lower()
    if not text:
        return default
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off"):
        return False
    raise ConfigurationError(f"{name}={given!r} is not a boolean; use 1 or 0")


def number(name: str, default: int, environ: Mapping[str, str] | None = None) -> int:
    """An integer variable; unset or empty is the default."""
    given = (os.environ if environ is None else environ).get(name, "")
    text = given.strip()
    if not text:
        return default
    try:
        return int(text)
    except ValueError as error:
        raise ConfigurationError(f"{name}={given!r} is not a whole number") from error


def limit(name: str, default: int) -> int:
    """A limit: a whole number that is not negative."""
    value = number(name, default)
    if value < 0:
        raise ConfigurationError(f"{name}={value} is no limit; use a number that is not negative, or unset it")
    return value


def software_version() -> str:
    """The release of the emulated software: HPUCLUSTER_SOFTWARE, default 1.19.0."""
    version = os.environ.get("HPUCLUSTER_SOFTWARE") or DEFAULT_SOFTWARE
    parts = version.split(".")
    if len(parts) < 2 or not all(part.isdecimal() for part in parts):
        raise ConfigurationError(f"HPUCLUSTER_SOFTWARE={version!r} is not a version such as 1.19.0 or 1.22.0")
    return version


def software_release() -> tuple[int, ...]:
    """Major and minor number of the emulated release."""
    return tuple(int(part) for part in software_version().split(".")[:2])


def lazy_mode() -> int:
    """PT_HPU_LAZY_MODE as the environment has it now; its default is the release's.

    Raises:
        ConfigurationError: no mode.
    """
    mode = number("PT_HPU_LAZY_MODE", 0 if software_release() >= FIRST_EAGER_SOFTWARE else 1)
    if mode not in (0, 1, 2, 3):
        raise ConfigurationError(
            f"PT_HPU_LAZY_MODE={mode} is not a mode; use 1 (lazy), 0 (eager), 2 (lazy, one by one) or 3 (lazy, graphs "
            "of random length, for tests)"
        )
    return mode


@dataclass(frozen=True)
class Settings:
    """What the environment asks for; `at_first_use` says what of it still counts after the import."""

    software: str
    lazy: bool
    lazy_mode: int
    max_ops: int
    lru_capacity: int
    numerics: bool
    int64_support: bool
    range_check: bool
    cache_metrics: bool
    launch_thread: bool
    host_time: str
    recipe_store: StoreSettings | None
    bucket_policies: Policies
    keep_log: bool
    graph_dumps: bool

    @property
    def mode(self) -> str:
        return "lazy" if self.lazy else "eager"


def read_settings() -> Settings:
    """Read the variables.

    Raises:
        ConfigurationError: a value that cannot be used; it is named.
    """
    software = software_version()
    mode = lazy_mode()
    numerics = os.environ.get("HPUCLUSTER_NUMERICS", "on") or "on"
    if numerics not in ("on", "off"):
        raise ConfigurationError(f"HPUCLUSTER_NUMERICS={numerics!r}; use on or off")
    host_time = os.environ.get("HPUCLUSTER_HOST_TIME", "modelled") or "modelled"
    if host_time not in ("modelled", "measured"):
        raise ConfigurationError(f"HPUCLUSTER_HOST_TIME={host_time!r}; use modelled or measured")
    lazy = mode != 0
    flag("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES", False)  # read where it is used; a bad value is told here
    return Settings(
        software=software,
        lazy=lazy,
        lazy_mode=mode,
        max_ops=1 if mode == 2 else limit("PT_HPU_MAX_COMPOUND_OP_SIZE", NO_LIMIT),
        numerics=numerics == "on",
        cache_metrics=flag("PT_HPU_ENABLE_CACHE_METRICS", False),
        host_time=host_time,
        recipe_store=read_store_settings(os.environ),
        keep_log="HPUCLUSTER_JOB_ID" in os.environ,
        **_read_late(lazy),
    )


def _read_late(lazy: bool) -> dict[str, Any]:
    """The fields whose variables count until the card is first used."""
    return {
        "lru_capacity": limit("HABANA_PGM_LRU_MAX", LRU_LAZY if lazy else LRU_EAGER),
        "int64_support": flag("PT_ENABLE_INT64_SUPPORT", not lazy),
        "range_check": lazy and flag("PT_HPU_ENABLE_VALID_DATA_RANGE_CHECK", True),
        "launch_thread": flag("PT_HPU_ENABLE_EXECUTION_THREAD", True),
        "bucket_policies": read_policies(os.environ),
        "graph_dumps": flag("GRAPH_VISUALIZATION", False),
    }


def at_first_use(registered: Settings) -> Settings:
    """The same, with the variables that the Gaudi software reads when the card is first used as they are now.

    Those that are fixed at import (`configs/environment/`) stay as they were.

    Raises:
        ConfigurationError: a value that cannot be used; it is named.
    """
    return replace(registered, **_read_late(registered.lazy))
