"""Random state of the card. There is one generator; its state has the form of the CPU generator's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from device.backend import runtime

DeviceLike = torch.device | str | int


def _generator(device: DeviceLike = "hpu") -> torch.Generator:
    index = device if isinstance(device, int) else torch.device(device).index
    if index not in (None, 0):
        raise RuntimeError(f"hpu random state supports only device 0, a process's own card; got device {device}")
    generator: torch.Generator = runtime.bridge().default_generator()
    return generator


def get_rng_state(device: DeviceLike = "hpu") -> torch.Tensor:
    """State of the generator as a uint8 CPU tensor."""
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "hpu") -> None:
    """Set the state that `get_rng_state` gave."""
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """The state in a list of one."""
    return [get_rng_state()]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Set the state from a list of one."""
    states = list(new_states)
    if len(states) != 1:
        raise RuntimeError(f"hpu random state supports only one device; got {len(states)} states, give one")
    set_rng_state(states[0])


def manual_seed(seed: int) -> torch.Generator:
    """Seed the card's generator."""
    return _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the card's generator. Without a built bridge the seed waits until there is one."""
    if runtime.is_loaded():
        manual_seed(seed)
    else:
        runtime.seed_later(int(seed))


def seed() -> int:
    """Seed from the system's randomness; returns the seed."""
    return _generator().seed()


def seed_all() -> int:
    """As `seed`."""
    return seed()


def initial_seed() -> int:
    """The seed last set."""
    return _generator().initial_seed()


class _DefaultGenerators(Sequence[torch.Generator]):
    """One generator per device, looked up when asked for."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> torch.Generator:  # type: ignore[override]
        if index not in (0, -1):
            raise IndexError(f"there is one hpu generator; got index {index}")
        return _generator()

    def __iter__(self) -> Iterator[torch.Generator]:
        yield _generator()


default_generators = _DefaultGenerators()
