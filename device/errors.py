"""Errors of the emulated card. Each names the value and the remedy."""

from __future__ import annotations


class HpuError(RuntimeError):
    """Base of the device's errors. `names_the_remedy`: the message alone is enough, a traceback adds nothing."""

    names_the_remedy = True


class BuildError(HpuError):
    """The native bridge cannot be built or loaded."""


class ConfigurationError(ValueError):
    """A card file, environment variable or option has a value that cannot be used."""

    names_the_remedy = True
