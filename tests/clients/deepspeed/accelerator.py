"""Every method of DeepSpeed's hpu accelerator layer is called, and what it gives is looked at.

The one exception is `reset_max_memory_allocated`: it calls a function of that name which the bridge has never had.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from deepspeed.accelerator import get_accelerator

ABSENT = "reset_max_memory_allocated"


class Called:
    """The accelerator, and which of its methods have been used."""

    def __init__(self, accelerator: Any) -> None:
        self._accelerator = accelerator
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.names.add(name)
        return getattr(self._accelerator, name)


def identity(card: Called) -> None:
    assert card.is_available() and card.device_count() == torch.hpu.device_count() >= 1
    assert card.device_name() == card.device_name(0) == "hpu" and card.device() == torch.device("hpu")
    card.set_device(0)
    assert card.current_device() == 0 and card.current_device_name() == "hpu:0"
    assert card.communication_backend_name() == "hccl" and not card.is_triton_supported()
    assert not card.is_synchronized_device() and not card.use_host_timers()
    assert card.resolves_data_dependency() and card.handles_memory_backpressure()
    assert card.on_accelerator(torch.ones(1, device="hpu")) and not card.on_accelerator(torch.ones(1))


def random_numbers(card: Called) -> None:
    assert card.random() is torch.random
    card.manual_seed(3)
    assert card.initial_seed() == 3
    state = card.get_rng_state()
    first = torch.rand(4, device="hpu")
    card.set_rng_state(state)
    assert torch.equal(first, torch.rand(4, device="hpu"))
    card.manual_seed_all(3)
    assert torch.equal(first, torch.rand(4, device="hpu"))
    assert card.default_generator(0).initial_seed() == 3


def streams_and_events(card: Called) -> None:
    side = card.Stream()
    start, end = card.Event(enable_timing=True), card.Event(enable_timing=True)
    a = torch.ones(1024, 1024, device="hpu")
    with card.stream(side):
        assert card.current_stream() == side
        start.record()
        b = a @ a
        end.record()
    card.current_stream().wait_stream(side)
    assert card.current_stream() == card.default_stream() != side
    card.synchronize()
    assert end.query() and start.elapsed_time(end) > 0 and b[0, 0].item() == 1024
    card.range_push("nothing")
    card.range_pop()
    called = []
    card.lazy_call(lambda: called.append(1))
    assert called == [1]


def memory(card: Called) -> None:
    before = card.memory_allocated()
    card.reset_peak_memory_stats()
    held = torch.ones(2**20, device="hpu")
    card.synchronize()
    assert card.memory_allocated() == before + 4 * 2**20 <= card.max_memory_allocated()
    assert card.total_memory() == card.memory_stats()["Limit"]
    assert card.available_memory() == card.total_memory() - card.memory_allocated()
    assert card.memory_reserved() == card.max_memory_reserved() == card.memory_cached() == card.max_memory_cached()
    card.reset_max_memory_cached()
    card.empty_cache()
    del held
    assert card.memory_allocated() == before
    page = card.pin_memory(torch.arange(3))
    assert card.is_pinned(page) and not card.is_pinned(torch.arange(3))
    assert card.is_pinned(card.pin_empty(2, 3, dtype=torch.float)) and card.is_pinned(card.pin_empty_like(page))
    card.unpin_memory(page)


def types(card: Called) -> None:
    assert card.is_bf16_supported() and card.is_fp16_supported()  # of Gaudi2, the card without a choice
    assert card.supported_dtypes() == [torch.float, torch.bfloat16, torch.half]
    for name, dtype in {
        "BFloat16Tensor": torch.bfloat16,
        "ByteTensor": torch.uint8,
        "DoubleTensor": torch.double,
        "FloatTensor": torch.float,
        "HalfTensor": torch.half,
        "IntTensor": torch.int,
        "LongTensor": torch.long,
    }.items():
        made = getattr(card, name)([1, 2])
        assert made.dtype == dtype and made.device.type == "hpu" and made.tolist() == [1, 2], name


def graphs(card: Called) -> None:
    x = torch.ones(4, device="hpu")
    graph = card.create_graph()
    with card.capture_to_graph(graph):
        y = x * 2
    x.fill_(5)
    card.replay_graph(graph)
    assert y.tolist() == [10] * 4


def builders(card: Called) -> None:
    assert card.op_builder_dir() == "deepspeed.ops.op_builder.hpu"
    assert card.create_op_builder("FusedAdamBuilder").load().__name__ == "HPUFusedAdam"
    assert card.create_op_builder("NoSuchBuilder") is None
    assert card.get_op_builder("NoSuchBuilder").__name__ == "NotImplementedBuilder"
    assert card.build_extension() is not None
    assert card.export_envs() == [] and card.visible_devices_envs() == ["CUDA_VISIBLE_DEVICES"]
    environ: dict[str, str] = {}
    card.set_visible_devices_envs(environ, [0, 1])
    assert environ == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert card.get_compile_backend() == "hpu_backend"
    card.set_compile_backend("eager")  # hpu_backend itself is a backend in eager mode only
    assert card.get_compile_backend() == "eager"


def main() -> None:
    card = Called(get_accelerator())
    assert card._name == "hpu"
    for part in (identity, random_numbers, streams_and_events, memory, types, graphs, builders):
        part(card)
    methods = {name for name in vars(type(get_accelerator())) if not name.startswith("_")}
    left = methods - card.names - {"apply_hpu_workarounds", "class_dict", ABSENT}
    assert not left, f"never called: {sorted(left)}"
    print(f"accelerator: {len(methods & card.names)} methods called", flush=True)


if __name__ == "__main__":
    os.environ["DS_ACCELERATOR"] = "hpu"
    main()
