"""FullyShardedDataParallel and `fully_shard` on cards equal one process on the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.distributed._composable import checkpoint
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    BackwardPrefetch,
    CPUOffload,
    CPUOffloadPolicy,
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    StateDictType,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.functional import cross_entropy

from .parallel_models import (
    BF16,
    PER_RANK,
    Net,
    Optimizer,
    adamw,
    assert_close,
    assert_reference,
    batches,
    make_net,
    reference,
    sgd,
    train,
    whole,
)
from .rank_pool import RankPool, all_equal

HALF = torch.bfloat16


# -- FullyShardedDataParallel ------------------------------------------------------------------------------


def shard(model: nn.Module, **options: Any) -> FullyShardedDataParallel:
    return FullyShardedDataParallel(
        model,
        **{"auto_wrap_policy": ModuleWrapPolicy({nn.Linear}), "device_id": torch.device("hpu", 0), **options},
    )


def full_parameters(model: FullyShardedDataParallel) -> dict[str, torch.Tensor]:
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT):
        return {name: value.cpu() for name, value in model.state_dict().items()}


STRATEGIES: list[tuple[dict[str, Any], dict[str, float]]] = [
    ({}, {}),
    ({"use_orig_params": True}, {}),
    ({"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP, "use_orig_params": True}, {}),
    ({"sharding_strategy": ShardingStrategy.NO_SHARD, "use_orig_params": True}, {}),
    ({"backward_prefetch": BackwardPrefetch.BACKWARD_POST, "forward_prefetch": True, "sync_module_states": True}, {}),
    ({"mixed_precision": MixedPrecision(param_dtype=HALF, reduce_dtype=torch.float32)}, BF16),
    ({"mixed_precision": MixedPrecision(param_dtype=HALF, reduce_dtype=HALF, buffer_dtype=HALF)}, BF16),
]


def shards_flat(rank: int, size: int) -> list[str]:
    expected, digests = reference(size), []
    for options, tolerance in STRATEGIES:
        model = shard(make_net(), **options)
        losses = train(model, sgd(model.parameters()), rank, size, size)
        digests.append(assert_reference(expected, losses, full_parameters(model), **tolerance))
    return digests


def test_sharding_strategies(pair: RankPool) -> None:
    assert all_equal(pair.run(shards_flat))


def clips_flat(rank: int, size: int) -> str:
    model = shard(make_net(), use_orig_params=True)
    apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, nn.Linear))
    losses = train(model, sgd(model.parameters()), rank, size, size, lambda: model.clip_grad_norm_(0.5))
    expected = reference(size, clip=0.5)
    parameters = {name.replace("_checkpoint_wrapped_module.", ""): v for name, v in full_parameters(model).items()}
    return assert_reference(expected, losses, parameters)


def test_clipping_and_activation_checkpointing(lazy_pair: RankPool) -> None:
    assert all_equal(lazy_pair.run(clips_flat))


def hybrid(rank: int, size: int) -> str:
    mesh = init_device_mesh("hpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = shard(make_net(), sharding_strategy=ShardingStrategy.HYBRID_SHARD, device_mesh=mesh, use_orig_params=True)
    losses = train(model, sgd(model.parameters()), rank, size, size)
    return assert_reference(reference(size), losses, full_parameters(model))


def test_hybrid_sharding(four: RankPool) -> None:
    assert all_equal(four.run(hybrid))


def saves_flat(rank: int, size: int) -> None:
    features, labels = (tensor[0].to("hpu") for tensor in batches(size))
    model = shard(make_net(), use_orig_params=True)
    optimizer = adamw(model.parameters())
    cross_entropy(model(features), labels).backward()
    optimizer.step()
    kept = full_parameters(model)
    moments = FullyShardedDataParallel.optim_state_dict(model, optimizer)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        sharded = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer.zero_grad()
    cross_entropy(model(features), labels).backward()
    optimizer.step()
    after = full_parameters(model)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        model.load_state_dict(sharded)
    optimizer.load_state_dict(FullyShardedDataParallel.optim_state_dict_to_load(model, optimizer, moments))
    assert_close(full_parameters(model).values(), kept.values(), rtol=0, atol=0)
    optimizer.zero_grad()
    cross_entropy(model(features), labels).backward()
    optimizer.step()
    assert_close(full_parameters(model).values(), after.values(), rtol=0, atol=0)


def test_sharded_states_go_on_where_they_were(lazy_pair: RankPool) -> None:
    lazy_pair.run(saves_flat)


def offloads_flat(rank: int, size: int) -> str:
    options: dict[str, Any] = {"cpu_offload": CPUOffload(offload_params=True), "use_orig_params": True}
    model = shard(make_net("cpu"), **options)
    losses = train(model, sgd(model.parameters()), rank, size, size)
    gather = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, gather):
        state = model.state_dict()
    assert bool(state) == (rank == 0)
    assert all(value.device.type == "cpu" for value in state.values())
    return assert_reference(reference(size), losses, full_parameters(model))


def test_parameters_on_the_host(pair: RankPool) -> None:
    assert all_equal(pair.run(offloads_flat))


# -- fully_shard -------------------------------------------------------------------------------------------


def shard_layers(model: Net, **options: Any) -> Net:
    for layer in model.layers:
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def train_sharded(
    rank: int, size: int, optimizer: Optimizer = sgd, clip: float | None = None, **options: Any
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model = shard_layers(make_net(), **options)

    def before_step() -> None:
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)

    return train(model, optimizer(model.parameters()), rank, size, size, before_step), whole(model)


def slow_adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01, foreach=False)


POLICIES: list[tuple[dict[str, Any], dict[str, float]]] = [
    ({}, {}),
    ({"reshard_after_forward": False}, {}),
    ({"mp_policy": MixedPrecisionPolicy(param_dtype=HALF, reduce_dtype=torch.float32)}, BF16),
    ({"mp_policy": MixedPrecisionPolicy(param_dtype=HALF, reduce_dtype=HALF)}, BF16),
]


def shards(rank: int, size: int) -> list[str]:
    expected = reference(size)
    digests = [assert_reference(expected, *train_sharded(rank, size, **options), **t) for options, t in POLICIES]
    digests.append(assert_reference(reference(size, clip=0.5), *train_sharded(rank, size, clip=0.5)))
    for optimizer in (adamw, slow_adamw):
        digests.append(assert_reference(reference(size, optimizer), *train_sharded(rank, size, optimizer)))
    return digests


def test_fully_shard(pair: RankPool) -> None:
    assert all_equal(pair.run(shards))


def shards_in_two_dimensions(rank: int, size: int) -> list[str]:
    expected = reference(size)
    meshes: list[Callable[[], Any]] = [
        lambda: init_device_mesh("hpu", (2, 2), mesh_dim_names=("replicate", "shard")),
        lambda: init_device_mesh("hpu", (4, 1), mesh_dim_names=("replicate", "shard")),
    ]
    digests = [assert_reference(expected, *train_sharded(rank, size, mesh=mesh())) for mesh in meshes]
    return [*digests, assert_reference(expected, *train_sharded(rank, size, reshard_after_forward=2))]


def test_hybrid_sharding_by_a_mesh_of_two_dimensions(four: RankPool) -> None:
    assert all_equal(four.run(shards_in_two_dimensions))


def accumulates(rank: int, size: int) -> None:
    model, plain = make_net(), make_net("cpu")
    for layer in model.layers:
        checkpoint(layer)
    shard_layers(model)
    model.first.set_modules_to_forward_prefetch([model.middle])
    model.last.set_modules_to_backward_prefetch([model.middle])
    features, labels = batches(size)
    mine = slice(PER_RANK * rank, PER_RANK * rank + PER_RANK)
    for step in range(2):
        model.set_requires_gradient_sync(step == 1)
        cross_entropy(model(features[step, mine].to("hpu")), labels[step, mine].to("hpu")).backward()
        cross_entropy(plain(features[step]), labels[step]).backward()
    ours = [parameter.grad.full_tensor() for parameter in model.parameters()]
    assert_close(ours, [parameter.grad for parameter in plain.parameters()])


def test_accumulation_prefetch_and_activation_checkpointing(lazy_pair: RankPool) -> None:
    lazy_pair.run(accumulates)


def offloads(rank: int, size: int) -> str:
    model = shard_layers(make_net("cpu"), offload_policy=CPUOffloadPolicy())
    losses = train(model, sgd(model.parameters()), rank, size, size)
    return assert_reference(reference(size), losses, host_shards(model))


def host_shards(model: Net) -> dict[str, torch.Tensor]:
    return {name: parameter.to("hpu").full_tensor() for name, parameter in model.named_parameters()}


def test_shards_on_the_host(pair: RankPool) -> None:
    assert all_equal(pair.run(offloads))


def restores(rank: int, size: int) -> None:
    with torch.device("meta"):
        model = Net()
    shard_layers(model).to_empty(device="hpu")
    full = make_net("cpu").state_dict()
    set_model_state_dict(
        model,
        dict(full) if rank == 0 else {},
        options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True),
    )
    assert_close(whole(model).values(), full.values(), rtol=0, atol=0)
    optimizer = adamw(model.parameters())
    features, labels = (tensor[0].to("hpu") for tensor in batches(size))
    cross_entropy(model(features), labels).backward()
    optimizer.step()
    states = get_state_dict(model, optimizer)
    set_state_dict(model, optimizer, model_state_dict=states[0], optim_state_dict=states[1])
    gathered = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    assert len(gathered) == (len(full) if rank == 0 else 0)
    parameters = whole(model)
    if rank == 0:
        assert_close(gathered.values(), parameters.values(), rtol=0, atol=0)


def test_a_model_made_without_memory_gets_a_state_and_gives_it_back(lazy_pair: RankPool) -> None:
    lazy_pair.run(restores)
