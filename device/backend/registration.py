"""Make `hpu` a device of PyTorch: the PrivateUse1 backend under that name, and the module `torch.hpu`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from ..errors import BuildError
from . import autocast, checkpoints, native, patches, runtime

NAME = "hpu"


_redirections: list[torch.library.Library] = []


def register(module: ModuleType) -> None:
    """Build the bridge where it is missing, name the backend, and install `module` as `torch.hpu`.

    Where the bridge cannot be built PyTorch stays as it is, but for `torch.hpu`: the first use of the device tells why.
    A second call does nothing.
    """
    if getattr(torch, NAME, None) is module:
        return
    late = hasattr(torch, NAME)
    if late:
        delattr(torch, NAME)
    torch._register_device_module(NAME, module)
    built = native.library_path().exists()
    try:
        native.ensure_built()
    except BuildError:
        runtime.register_operators()  # which modules of ours hold on to
        return
    torch.utils.rename_privateuse1_backend(NAME)
    _add_methods()
    patches.apply()
    checkpoints.install(runtime.settings().lazy)
    autocast.be_bfloat16_by_default()
    # The backward pass runs in the thread that asks for it: then every operator has the user's stack above it, and no
    # engine thread still holds Python objects when the interpreter ends. It is this thread's setting.
    torch.autograd.set_multithreading_enabled(False)
    bridge = runtime.bridge()
    if not built or late:
        _redirect_unused_key(bridge)


def _redirect_unused_key(bridge: Any) -> None:
    # Before the backend had its name, "hpu" meant a key of PyTorch's that nothing uses. The call that triggered the
    # building, and devices made before, still carry it: tensors asked for there are made on our device.
    bridge.guard_unused_key()
    library = torch.library.Library("aten", "IMPL")

    def make(factory: Any) -> Any:
        return lambda *arguments, device=None, **options: factory(*arguments, device=torch.device(NAME, 0), **options)

    library.impl("empty.memory_format", make(torch.ops.aten.empty.memory_format), "HPU")
    library.impl("empty_strided", make(torch.ops.aten.empty_strided.default), "HPU")
    _redirections.append(library)


def _add_methods() -> None:
    # Tensor.is_hpu and is_hpu of storages exist in PyTorch for its own, unused hpu key; ours means our device.
    for owner in (torch.Tensor, torch.nn.Module, torch.UntypedStorage, torch.TypedStorage):
        for attribute in (NAME, f"is_{NAME}"):
            if attribute in vars(owner):
                delattr(owner, attribute)
    torch.Tensor.is_hpu = property(lambda tensor: tensor.device.type == NAME)  # type: ignore
    torch.Tensor.hpu = _tensor_to_hpu  # type: ignore
    torch.nn.Module.hpu = _module_to_hpu  # type: ignore
    torch.UntypedStorage.is_hpu = property(lambda storage: storage.device.type == NAME)  # type: ignore
    torch.UntypedStorage.hpu = _storage_to_hpu  # type: ignore


def _tensor_to_hpu(
    tensor: torch.Tensor,
    device: torch.device | int | str | None = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> torch.Tensor:
    """The tensor on hpu."""
    return tensor.to(_device(device), non_blocking=non_blocking, memory_format=memory_format)


def _module_to_hpu(module: torch.nn.Module, device: torch.device | int | str | None = None) -> torch.nn.Module:
    """Moves parameters and buffers to hpu."""
    return module.to(_device(device))


def _storage_to_hpu(
    storage: torch.UntypedStorage, device: torch.device | int | str | None = None, non_blocking: bool = False
) -> torch.UntypedStorage:
    """The storage on hpu."""
    return storage.to(device=_device(device), non_blocking=non_blocking)


def _device(device: torch.device | int | str | None) -> torch.device:
    if device is None:
        return torch.device(NAME, 0)
    return torch.device(NAME, device) if isinstance(device, int) else torch.device(device)
