"""One operator with one sample: results, gradients, in-place and out= variants on hpu against the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from habana_frameworks.torch.utils.internal import is_lazy

from .inputs import Sample, as_the_card_holds, in_float32, on_device, tensors, without_gradients

CARD = "hpu"
UNINITIALISED = ("empty", "new_empty")
HOST_ARGUMENTS = ("tensor_split",)  # whose further arguments every device wants on the host
# The card computes float64 as float32.
TOLERANCES = {
    torch.float64: (2e-5, 2e-5),
    torch.float32: (2e-5, 2e-5),
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (1.6e-2, 1.6e-2),
}
# The CPU has a kernel of its own, which lays out gradients in its own way; the card takes the plain formula.
OWN_LAYOUT = ("nn.functional.scaled_dot_product_attention",)
HALF_TYPES = (torch.float16, torch.bfloat16)
DEPENDENT = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
# Sums chunks whose number depends on the device in the type of its inputs.
ORDER_MATTERS = {"nn.functional.linear_cross_entropy": 5e-2}
REFUSALS = {
    "Complex datatype is not supported on HPU device": "complex",
    "tensors are not supported on HPU device": "sparse",
    "exceeds Int range": "int64 of more than 32 bits",
}


class Refused(Exception):
    """The card does not have the type or layout that the operator would need."""


class Different(Exception):
    """The card does otherwise than the CPU."""


class NotTaken(Exception):
    """The CPU does not take the sample."""


def on_host(function: Callable[[], Any]) -> Any:
    """What the CPU gives."""
    try:
        return function()
    except (
        RuntimeError,
        ValueError,
        IndexError,
        TypeError,
        NotImplementedError,
        AttributeError,
        AssertionError,
    ) as error:
        raise NotTaken(f"{type(error).__name__}: {error}") from error


def on_card(what: str, function: Callable[[], Any]) -> Any:
    """What the card gives."""
    try:
        return function()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        for text, reason in REFUSALS.items():
            if text in str(error):
                raise Refused(reason) from error
        raise Different(f"{what}: {type(error).__name__}: {str(error).strip()[:300]}") from error


def strides(tensor: torch.Tensor) -> list[int]:
    """Strides of the dimensions in which there is a second element."""
    if tensor.numel() == 0:
        return []
    return [stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True) if size > 1]


def check_layout(what: str, got: torch.Tensor, wanted: torch.Tensor, with_strides: bool = True) -> None:
    """Shape, dtype, device, layout and strides."""
    if wanted.layout is not torch.strided or wanted.is_complex():
        raise Refused("sparse" if wanted.layout is not torch.strided else "complex")
    if got.shape != wanted.shape:
        raise Different(f"{what}: shape {tuple(got.shape)} instead of {tuple(wanted.shape)}")
    if got.dtype != wanted.dtype:
        raise Different(f"{what}: {got.dtype} instead of {wanted.dtype}")
    if got.device.type != CARD:
        raise Different(f"{what}: on {got.device}")
    if with_strides and strides(got) != strides(wanted):
        raise Different(f"{what}: strides {got.stride()} instead of {wanted.stride()} of {tuple(wanted.shape)}")


def check_values(what: str, got: torch.Tensor, wanted: torch.Tensor, tolerance: float = 0) -> None:
    """Values, with the tolerance of the dtype, or another where that is larger."""
    mine, theirs = on_card(what, got.detach().cpu), wanted.detach()
    rtol, atol = (max(one, tolerance) for one in TOLERANCES.get(wanted.dtype, (0, 0)))
    if wanted.dtype.is_floating_point and wanted.dtype.itemsize == 1:
        mine, theirs = mine.float(), theirs.float()
    elif wanted.dtype in (torch.uint16, torch.uint32, torch.uint64):
        mine, theirs = mine.to(torch.int64), theirs.to(torch.int64)
    if wanted.dtype == torch.int64 and is_lazy():  # held in 32 bits, in which arithmetic wraps around
        theirs = theirs.to(torch.int32).to(torch.int64)
    if mine.dtype == torch.float64:
        theirs = theirs.to(torch.float32).to(torch.float64)
    try:
        torch.testing.assert_close(mine, theirs, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        raise Different(f"{what}: {' '.join(str(error).split())[:300]}") from None


def check_numbers(what: str, got: Any, wanted: Any) -> None:
    """Results that are no tensors."""
    if isinstance(wanted, (list, tuple)) and type(got) is type(wanted) and len(got) == len(wanted):
        for one, other in zip(got, wanted, strict=True):
            check_numbers(what, one, other)
        return
    same = type(got) is type(wanted) and (
        math.isclose(got, wanted, rel_tol=1e-6) or got != got if isinstance(wanted, float) else got == wanted
    )
    if not same:
        raise Different(f"{what}: {got!r} instead of {wanted!r}")


def seed(number: int) -> None:
    """Seed host and card; `torch.manual_seed` takes longer, since it keeps a stack trace for each other device."""
    torch.default_generator.manual_seed(number)
    torch.hpu.manual_seed(number)


class _Watch(TorchDispatchMode):
    """Sees whether an operator draws random numbers, and whether it has a shape that follows from values."""

    def __init__(self) -> None:
        super().__init__()
        self.random = False
        self.shaped_by_values = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.random |= torch.Tag.nondeterministic_seeded in func.tags
        self.shaped_by_values |= not DEPENDENT.isdisjoint(func.tags)
        return func(*args, **(kwargs or {}))


class Case:
    """An operator, a dtype and a sample. `values`: compare numbers, too."""

    def __init__(self, op: Any, sample: Sample, values: bool = True) -> None:
        self.op = op
        self.sample: Sample = as_the_card_holds(sample)
        self.values = values
        self.random = False
        self.widened: tuple[torch.dtype, ...] = ()  # dtypes that are float32 for now

    def copied(self, sample: Sample, device: str) -> Sample:
        """Copies of the arguments on `device`."""
        if self.op.name in HOST_ARGUMENTS:
            return on_device(sample[0], device), on_device(sample[1], "cpu"), on_device(sample[2], "cpu")
        return on_device(sample, device)

    def check(self, what: str, got: Any, wanted: Any, repeat: Callable[[str], Any]) -> None:
        """Results of both devices; `repeat` runs it again on the device named."""
        mine, theirs = tensors(got), tensors(wanted)
        if len(mine) != len(theirs):
            raise Different(f"{what}: {len(mine)} tensors instead of {len(theirs)}")
        try:
            for one, other in zip(mine, theirs, strict=True):
                check_layout(what, one, other, what != "backward" or self.op.name not in OWN_LAYOUT)
        except Different:
            if not self.values and self._is_shaped_by_values(repeat):
                raise Refused("a shape that follows from values") from None
            raise
        if not self.values or self.op.name.startswith(UNINITIALISED):
            return
        try:
            for one, other in zip(mine, theirs, strict=True):
                check_values(what, one, other, ORDER_MATTERS.get(self.op.name, 0))
            if not theirs:
                check_numbers(what, got, wanted)
        except Different:
            self.random = self.random or self.is_random(repeat)
            if not self.random:
                if self._is_as_far_as_float32(theirs, mine, repeat) or self._is_nearer_to_float32(theirs, mine, repeat):
                    return
                raise
            self.check_reproducible(what, repeat)

    def _is_shaped_by_values(self, repeat: Callable[[str], Any]) -> bool:
        with _Watch() as watch:
            repeat("cpu")
        return watch.shaped_by_values

    def _is_as_far_as_float32(
        self, wanted: list[torch.Tensor], got: list[torch.Tensor], repeat: Callable[[str], Any]
    ) -> bool:
        """Whether float64 results are no farther from the CPU's than its own in float32, which the card computes in."""
        if not any(tensor.dtype == torch.float64 for tensor in wanted):
            return False
        narrow = self._in_float32(repeat, (torch.float64,))
        if narrow is None:
            return False
        for one, other, reference in zip(got, narrow, wanted, strict=True):
            near = one.detach().cpu().double(), other.detach().double(), reference.detach().double()
            mine, theirs = ((value - near[2]).abs().nan_to_num(0) for value in near[:2])
            if mine.numel() and mine.max() > 4 * theirs.max():
                return False
        return True

    def _is_nearer_to_float32(
        self, wanted: list[torch.Tensor], got: list[torch.Tensor], repeat: Callable[[str], Any]
    ) -> bool:
        """Whether results of a half type are nearer than the CPU's to the sums of float32, which some kernels round."""
        if not any(tensor.dtype in HALF_TYPES for tensor in wanted):
            return False
        exact = self._in_float32(repeat, HALF_TYPES)
        if exact is None:
            return False
        for one, other, reference in zip(got, wanted, exact, strict=True):
            near = one.detach().cpu().float(), other.detach().float(), reference.detach().float()
            mine, theirs = ((value - near[2]).abs().nan_to_num(0) for value in near[:2])
            if mine.numel() and mine.max() > theirs.max():
                return False
        return True

    def _in_float32(
        self, repeat: Callable[[str], Any], instead_of: tuple[torch.dtype, ...]
    ) -> list[torch.Tensor] | None:
        """What the CPU gives for float32 in place of those dtypes; None where that is an error."""
        original, self.sample, self.widened = self.sample, in_float32(self.sample, instead_of), instead_of
        try:
            return tensors(repeat("cpu"))
        except Exception:
            return None
        finally:
            self.sample, self.widened = original, ()

    def is_random(self, repeat: Callable[[str], Any]) -> bool:
        """Whether an operator within it draws random numbers."""
        with _Watch() as watch:
            repeat("cpu")
        return watch.random

    def check_reproducible(self, what: str, repeat: Callable[[str], Any]) -> None:
        """The same seed gives the same numbers on the card."""
        runs = []
        for _ in range(2):
            seed(1)
            runs.append([tensor.detach().cpu() for tensor in tensors(repeat(CARD))])
        for one, other in zip(*runs, strict=True):
            if not torch.allclose(one, other, rtol=0, atol=0, equal_nan=True):
                raise Different(f"{what}: the same seed gives other numbers")

    def forward_and_backward(self, differentiable: bool) -> None:
        """Results, what became of the arguments, and gradients for fixed cotangents."""
        host, card = self.copied(self.sample, "cpu"), on_card("copy", lambda: self.copied(self.sample, CARD))
        seed(0)
        wanted = on_host(lambda: self._run(host))
        seed(0)
        got = on_card("forward", lambda: self._run(card))
        self.check("forward", got, wanted, lambda device: self._run(self.copied(self.sample, device)))
        if self.values and not self.random:
            for one, other in zip(tensors(list(card)), tensors(list(host)), strict=True):
                if other.layout is torch.strided and one.device.type == CARD:
                    check_layout("argument afterwards", one, other)
                    check_values("argument afterwards", one, other)
        if differentiable:
            self._backward(host, card, wanted, got)

    def _run(self, sample: Sample) -> Any:
        return self.op(sample[0], *sample[1], **sample[2])

    def _backward(self, host: Sample, card: Sample, wanted: Any, got: Any) -> None:
        outputs = [number for number, tensor in enumerate(tensors(wanted)) if tensor.requires_grad]
        inputs = [number for number, tensor in enumerate(tensors(list(host))) if tensor.requires_grad]
        if not outputs or not inputs:
            return
        generator = torch.Generator().manual_seed(0)
        cotangents = [
            torch.randn(tensors(wanted)[n].shape, generator=generator).to(tensors(wanted)[n].dtype) for n in outputs
        ]

        def gradients(sample: Sample, results: Any, device: str) -> list[torch.Tensor | None]:
            return list(
                torch.autograd.grad(
                    [tensors(results)[n] for n in outputs],
                    [tensors(list(sample))[n] for n in inputs],
                    [in_float32(cotangent, self.widened).to(device) for cotangent in cotangents],
                    allow_unused=True,
                )
            )

        def again(device: str) -> Any:
            sample = self.copied(self.sample, device)
            return [g for g in gradients(sample, self._run(sample), device) if g is not None]

        if not all(tensors(got)[n].requires_grad for n in outputs):
            raise Different("backward: a result has no gradient")
        theirs = on_host(lambda: gradients(host, wanted, "cpu"))
        mine = on_card("backward", lambda: gradients(card, got, CARD))
        if [g is None for g in mine] != [g is None for g in theirs]:
            raise Different("backward: other arguments have a gradient")
        self.check("backward", [g for g in mine if g is not None], [g for g in theirs if g is not None], again)

    def in_place(self) -> None:
        """The in-place variant: what it returns is its argument, with the right values."""
        variant = self.op.inplace_variant
        if variant is None:
            return

        def run(device: str) -> Any:
            arguments = self.copied(without_gradients(self.sample), device)
            variant(arguments[0], *arguments[1], **arguments[2])
            return arguments[0]

        seed(0)
        wanted = on_host(lambda: run("cpu"))
        seed(0)
        self.check("in place", on_card("in place", lambda: run(CARD)), wanted, run)

    def into(self) -> None:
        """The out= variant: into tensors of the right shape, of another layout, and of no elements."""
        if not self.op.supports_out:
            return
        seed(0)
        expected = on_host(lambda: self._run(self.copied(without_gradients(self.sample), "cpu")))
        outs = tensors(expected)
        flat = isinstance(expected, torch.Tensor) or (
            isinstance(expected, (tuple, list)) and all(isinstance(item, torch.Tensor) for item in expected)
        )
        if not flat or not outs or any(out.layout is not torch.strided for out in outs):
            return

        def run(device: str, make: Callable[[torch.Tensor, str], torch.Tensor]) -> Any:
            given = [make(in_float32(out, self.widened), device) for out in outs]
            arguments = self.copied(without_gradients(self.sample), device)
            out = given[0] if isinstance(expected, torch.Tensor) else tuple(given)
            self.op(arguments[0], *arguments[1], **arguments[2], out=out)
            return given

        for what, make in (("out=", _same), ("out= of other strides", _strided), ("out= without elements", _empty)):
            seed(0)
            with suppress(NotTaken):
                wanted = on_host(lambda make=make: run("cpu", make))
                if self.values and not all(map(_agree, wanted, outs)):
                    raise NotTaken("the CPU contradicts itself")  # as oneDNN's products of 8-bit floats do
                seed(0)
                got = on_card(what, lambda make=make: run(CARD, make))
                self.check(what, got, wanted, lambda device, make=make: run(device, make))


def check_error(op: Any, sample: Sample, error_type: type[Exception]) -> None:
    """Arguments that are an error on the CPU are one on the card."""

    def run(device: str) -> Exception | None:
        arguments = on_device(sample, device)
        try:
            op(arguments[0], *arguments[1], **arguments[2])
            torch.hpu.synchronize()
        except Exception as error:
            return error
        return None

    wanted = run("cpu")
    if wanted is None:
        raise NotTaken("the CPU raises nothing")
    got = run(CARD)
    if not isinstance(got, (error_type, IndexError)):  # CPU kernels have internal errors where others check the index
        raise Different(f"error: {got!r} instead of {wanted!r}")


def _agree(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether what an operator wrote into out= is what it returns without."""
    return one.shape == other.shape and torch.allclose(one.double(), other.double(), 1e-2, 1e-2, equal_nan=True)


def _same(tensor: torch.Tensor, device: str) -> torch.Tensor:
    return torch.zeros_like(tensor.detach(), device=device)


def _strided(tensor: torch.Tensor, device: str) -> torch.Tensor:
    memory = torch.zeros(tuple(reversed(tensor.shape)) + (2,), dtype=tensor.dtype, device=device)
    return memory[..., 0].permute(*reversed(range(tensor.dim())))


def _empty(tensor: torch.Tensor, device: str) -> torch.Tensor:
    return torch.empty(0, dtype=tensor.dtype, device=device)
