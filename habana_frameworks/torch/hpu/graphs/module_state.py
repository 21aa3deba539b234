"""Whether a module still has the parameters that a graph was captured with."""

from __future__ import annotations

from typing import Any

from torch import nn

from device import strict
from device.errors import HpuError


class ModuleState:
    """Where the parameters of a module lay when it was captured. Their values may change, their tensors not.

    Buffers are left out: modules replace them in their forward pass, and the graph has those that it was captured with.
    """

    def __init__(self, module: nn.Module) -> None:
        self._entries = [
            (part._parameters, name, f"{path}.{name}" if path else name, parameter, parameter.data_ptr())
            for path, part in module.named_modules()
            for name, parameter in part._parameters.items()
            if parameter is not None
        ]
        self._module = module
        self._values: dict[str, Any] = {}

    def settle(self) -> None:
        """The capture has ended: numbers, texts and the training mode are what it has seen."""
        if strict.enabled():
            self._values = _values(self._module)

    def on_host(self) -> str:
        """The name of a parameter that is not on the card; empty if all are."""
        return next((full for _, _, full, parameter, _ in self._entries if parameter.device.type != "hpu"), "")

    def changed(self) -> str:
        """What was changed since, in words; empty if nothing."""
        for slots, name, full, parameter, address in self._entries:
            now = slots.get(name)
            if now is parameter and now.data_ptr() == address:
                continue
            if now is None:
                return f"parameter {full!r} is gone"
            where = "was moved or replaced" if now.device.type == "hpu" else f"is on {now.device} now"
            return f"parameter {full!r} {where}"
        return ""

    def check(self, remedy: str) -> None:
        """Raises HpuError: a replay would compute with tensors that the module no longer has."""
        changed = self.changed()
        if changed:
            raise HpuError(f"the HPU graph is stale: {changed}, and a replay would use what was captured; {remedy}")
        if self._values:
            now = _values(self._module)
            for name, before in self._values.items():
                if now.get(name, before) != before:
                    strict.refuse(
                        f"{name} was {before!r} when the HPU graph was captured and is {now[name]!r}: on the card a "
                        f"replay goes on with what was captured; {remedy}"
                    )


def _values(module: nn.Module) -> dict[str, Any]:
    """What a forward pass may decide by: attributes that are numbers or texts, `training` among them, by their path."""
    return {
        f"{path}.{name}" if path else name: value
        for path, part in module.named_modules()
        for name, value in vars(part).items()
        if isinstance(value, (bool, int, float, str)) and not name.startswith("_")
    }
