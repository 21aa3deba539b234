"""How PyTorch's compiler learns of the card, at the moment at which it is imported itself.

Outside lazy mode there is a backend `hpu_backend`, and the two names that it had once. In lazy mode there is none, and
PyTorch's own error says where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from device.backend import runtime

from ... import _shield
from .after_import import after_import

BACKENDS = ("hpu_backend", "aot_hpu_training_backend", "aot_hpu_inference_backend")


class _Later:
    """Stands in the registry where PyTorch has the entry point of a package: loads the backend when it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def load(self) -> Callable[..., Any]:
        backends = _shield.load("habana_frameworks.torch.dynamo.compile_backend.backends")
        backend: Callable[..., Any] = getattr(backends, self._name)
        return backend


def _add_backends(registry: ModuleType) -> None:
    for name in BACKENDS:
        registry._BACKENDS.setdefault(name, _Later(name))


def _explain_missing_backend(errors: ModuleType) -> None:
    invalid = errors.InvalidBackend
    original = invalid.__init__

    def explain(self: Exception, name: str, *arguments: Any, **options: Any) -> None:
        original(self, name, *arguments, **options)  # PyTorch 2.14 has suggestions, too
        if name in BACKENDS:
            hint = (
                f" {name} does not exist in lazy mode, in which this process runs: set PT_HPU_LAZY_MODE=0 before "
                "habana_frameworks.torch is imported."
            )
            self.args = (f"{self.args[0]}{hint}", *self.args[1:])

    invalid.__init__ = explain


def _add_interface(interfaces: ModuleType) -> None:
    ours = _shield.load("habana_frameworks.torch.dynamo.device_interface")
    for name in ("hpu", "hpu:0"):
        interfaces.register_interface_for_device(name, ours.HpuInterface)


def _guard_inductor(inductor: ModuleType) -> None:
    compile_graph = inductor.compile_fx

    def guarded(graph: Any, example_inputs: Any, *arguments: Any, **options: Any) -> Any:
        if any(isinstance(item, torch.Tensor) and item.device.type == "hpu" for item in example_inputs):
            advice = (
                "in lazy mode leave torch.compile out"
                if runtime.settings().lazy
                else 'use torch.compile(..., backend="hpu_backend")'
            )
            raise RuntimeError(f"the inductor backend of torch.compile does not generate code for hpu; {advice}")
        return compile_graph(graph, example_inputs, *arguments, **options)

    inductor.compile_fx = guarded  # type: ignore[attr-defined]


def _keep_layouts(module: ModuleType) -> None:
    # PyTorch assumes that results on hpu are always contiguous. Here they have the layout that they have everywhere,
    # and what is traced must be what runs.
    setattr(module, "is_noncontiguous_supported", lambda device: True)  # noqa: B010 (a name of PyTorch's module)


def register() -> None:
    """Wait for PyTorch's compiler."""
    if runtime.settings().lazy:
        after_import("torch._dynamo.exc", _explain_missing_backend)
    else:
        after_import("torch._dynamo.backends.registry", _add_backends)
    after_import("torch._dynamo.device_interface", _add_interface)
    for name in ("torch._subclasses.fake_impls", "torch._refs"):
        after_import(name, _keep_layouts)
    after_import("torch._inductor.compile_fx", _guard_inductor)
