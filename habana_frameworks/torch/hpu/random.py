"""Random state of the card. There is one generator; its state has the form of the CPU generator's."""

from __future__ import annotations

import hashlib
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
    """State of the generator as a uint8 CPU tensor; in the form of the context that `set_rng_ctx` chose."""
    return _philox.state(_generator()) if _philox.is_chosen else _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "hpu") -> None:
    """Set the state that `get_rng_state` gave."""
    if _philox.is_chosen:
        _philox.become(_generator(), new_state)
    else:
        _generator(device).set_state(new_state)


class _PhiloxForm:
    """The generator's state as a counter-based generator would have it: seed and offset, 8 bytes each.

    DTensor moves the offset so that shards of a tensor get different random numbers and replicas get the same. An
    offset that was not set follows from the state alone, so ranks that have drawn alike have the same one. DTensor
    names the rank's number as the device's index; a process has the state of one card whatever the index.
    """

    BYTES = 16

    def __init__(self) -> None:
        self.is_chosen = False
        self._set: tuple[torch.Tensor, torch.Tensor] | None = None  # the form that was set, and the state it made

    def state(self, generator: torch.Generator) -> torch.Tensor:
        now = generator.get_state()
        if self._set is not None and torch.equal(now, self._set[1]):
            return self._set[0].clone()
        drawn = int.from_bytes(hashlib.blake2b(now.numpy().tobytes(), digest_size=5).digest(), "little")
        # Multiples of 4 are what DTensor counts in.
        return _pair(generator.initial_seed() & (2**63 - 1), 4 * drawn)

    def become(self, generator: torch.Generator, form: torch.Tensor) -> None:
        if form.numel() != self.BYTES:
            raise RuntimeError(
                f"a random state of {form.numel()} bytes is not of the form 'philox' ({self.BYTES} bytes); it was "
                "saved outside of set_rng_ctx('philox')"
            )
        generator.manual_seed(int.from_bytes(hashlib.blake2b(form.numpy().tobytes(), digest_size=7).digest(), "little"))
        self._set = form.clone(), generator.get_state()


def _pair(seed: int, offset: int) -> torch.Tensor:
    return torch.tensor([seed, offset], dtype=torch.int64).view(torch.uint8)


_philox = _PhiloxForm()


def set_rng_ctx(ctx: str) -> None:
    """Until `unset_rng_ctx`, states of the generator have this form; there is `"philox"`: seed and offset."""
    _check_context(ctx)
    _philox.is_chosen = True


def unset_rng_ctx(ctx: str) -> None:
    """States have their ordinary form again."""
    _check_context(ctx)
    _philox.is_chosen = False


def _check_context(ctx: str) -> None:
    if ctx != "philox":
        raise ValueError(f"{ctx!r} is no form of random state; there is 'philox'")


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
