"""Every operation of torch.distributed on tensors of the card, through each of PyTorch's ways to ask for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
from torch.distributed.device_mesh import init_device_mesh

import habana_frameworks.torch as ht

from .hccl_ranks import run_ranks
from .rank_pool import RankPool

SIZE = 4
TOTAL = float(SIZE * (SIZE + 1) // 2)
KINDS: Any = dist.ReduceOp.RedOpType
DTYPES = (
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)


@pytest.fixture(scope="module")
def ranks() -> Iterator[RankPool]:
    pool = RankPool(SIZE)
    yield pool
    pool.close()


def card(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values).to(dtype).to("hpu")


def message(attempt: Callable[[], Any]) -> str:
    try:
        attempt()
    except (RuntimeError, ValueError, TypeError) as error:
        return str(error)
    return "no error"


def reduces(rank: int, size: int) -> None:
    expected = {"SUM": [10, 4], "PRODUCT": [24, 1], "MIN": [1, 1], "MAX": [4, 1]}
    for dtype in DTYPES:
        for name, want in expected.items():
            tensor = card(rank + 1, 1, dtype=dtype)
            dist.all_reduce(tensor, op=getattr(dist.ReduceOp, name))
            assert tensor.dtype == dtype and tensor.tolist() == want, (dtype, name)
    for name, wanted in {"SUM": [True, True], "PRODUCT": [False, True], "MAX": [True, True]}.items():
        tensor = card(rank == 1, True, dtype=torch.bool)
        dist.all_reduce(tensor, op=getattr(dist.ReduceOp, name))
        assert tensor.tolist() == wanted, name
    rows = torch.zeros(2, 3, device="hpu").t()
    rows += rank
    dist.all_reduce(rows)  # not contiguous
    assert (rows.cpu() == 6).all()
    for shape in ((0,), (0, 3), (2, 0), ()):
        tensor = torch.ones(shape, device="hpu")
        dist.all_reduce(tensor)
        dist.all_gather([torch.zeros(shape, device="hpu") for _ in range(size)], tensor)
        dist.broadcast(tensor, 1)
        assert tensor.shape == shape
    dist.all_reduce_coalesced([card(1), card(2)])


def by_short_forms(rank: int, size: int) -> None:
    group: Any = dist.group.WORLD
    tensor = card(rank + 1)
    group.allreduce(tensor, dist.ReduceOp.MAX).wait()
    group.allreduce([tensor], op=dist.ReduceOp.SUM).wait()
    assert tensor.item() == 4 * size
    group.broadcast(tensor.fill_(rank), 2).wait()
    group.broadcast([tensor], root=2).wait()
    assert tensor.item() == 2
    group.reduce(tensor, 1, dist.ReduceOp.SUM).wait()
    assert tensor.item() == (2 * size if rank == 1 else 2)
    group.reduce_scatter([tensor], [[card(rank) for _ in range(size)]], dist.ReduceOp.MAX).wait()
    assert tensor.item() == 3
    blocks = [card(0) for _ in range(size)]
    group.gather([blocks] if rank == 0 else [], [card(rank)], root=0).wait()
    group.scatter([tensor], [blocks] if rank == 0 else [], 0).wait()
    assert tensor.item() == rank


def test_reduce_operator_and_root_in_place_of_options(ranks: RankPool) -> None:
    ranks.run(by_short_forms)


def test_reductions_of_all_types_and_shapes(ranks: RankPool) -> None:
    ranks.run(reduces)


def refusals(rank: int, size: int) -> list[str]:
    attempts: list[Callable[[], Any]] = []
    for kind in ("AVG", "BAND", "BOR", "BXOR"):
        op = getattr(dist.ReduceOp, kind)
        attempts.append(lambda op=op: dist.all_reduce(card(1, dtype=torch.int32), op=op))  # type: ignore[misc]
    premultiplied = dist._make_nccl_premul_sum(2.0)  # type: ignore[attr-defined]
    attempts += [
        lambda: dist.reduce(card(1), 0, op=premultiplied),
        lambda: functional.all_reduce(card(1), "avg", dist.group.WORLD),
        lambda: dist.all_gather([torch.zeros(1) for _ in range(size)], card(1)),
        lambda: dist.broadcast(card(1), size),
        lambda: dist.scatter(card(1), [card(1)] * (size + 1), src=rank),
        lambda: dist.recv(card(1)),
        lambda: dist.all_reduce(torch.ones(2, 2).to_sparse()),
        lambda: dist.group.WORLD.allgather([[card(1)]], [card(1)]).wait(),
    ]
    texts = [message(attempt) for attempt in attempts]
    dist.barrier()
    return texts


def test_what_cannot_be_is_refused_alike_on_every_rank(ranks: RankPool) -> None:
    values = ranks.run(refusals)
    assert all(value == values[0] for value in values)
    refusal = "Unsupported ReduceOp for HCCL process group: "
    words = [f"{refusal}all_reduce with ReduceOp.{kind}" for kind in ("AVG", "BAND", "BOR", "BXOR")]
    words += ["reduce with ReduceOp.PREMUL_SUM", "ReduceOp.AVG"]
    words += ["tensors on hpu and on cpu", "the group has no rank 4 (0 to 3)", "a list of 4 tensors"]
    words += ["cannot receive from any source", "to_dense", "a list of 4 tensors (one per rank) is needed, got 1"]
    for text, word in zip(values[0], words, strict=True):
        assert word in text


def objects(rank: int, size: int) -> None:
    values: list[Any] = [{"rank": rank}, rank]
    dist.broadcast_object_list(values, 2)
    assert values == [{"rank": 2}, 2]
    everyone: list[Any] = [None] * size
    dist.all_gather_object(everyone, ("rank", rank))
    assert everyone == [("rank", r) for r in range(size)]
    gathered: list[Any] | None = [None] * size if rank == 1 else None
    dist.gather_object("x" * rank, gathered, dst=1)
    assert gathered is None or gathered == ["x" * r for r in range(size)]
    mine: list[Any] = [None]
    dist.scatter_object_list(mine, [r * 10 for r in range(size)] if rank == 3 else None, src=3)
    assert mine == [rank * 10]
    if rank == 0:
        dist.send_object_list([1, "b"], 1)
    if rank == 1:
        received: list[Any] = [None, None]
        dist.recv_object_list(received, 0)
        assert received == [1, "b"]


def test_objects_travel_through_the_card(ranks: RankPool) -> None:
    ranks.run(objects)


def messages(rank: int, size: int) -> None:
    after, before = (rank + 1) % size, (rank - 1) % size
    tensor, received = card(rank, 7), card(0, 0)
    swaps = [dist.P2POp(dist.isend, tensor, after), dist.P2POp(dist.irecv, received, before)]
    for work in dist.batch_isend_irecv(swaps):
        work.wait()
    assert received.tolist() == [before, 7]
    works = [dist.isend(tensor + 1, after, tag=3), dist.irecv(received, before, tag=3)]
    for work in works:
        assert work is not None and work.wait(timedelta(seconds=15))
    assert received.tolist() == [before + 1, 8]
    square, turned = torch.arange(9.0).view(3, 3).to("hpu"), torch.zeros(3, 3, device="hpu")
    works = [dist.isend(square.t(), after), dist.irecv(turned.t(), before)]
    works += [dist.isend(torch.ones(0, device="hpu"), after), dist.irecv(torch.ones(0, device="hpu"), before)]
    for work in works:
        assert work is not None
        work.wait()
    assert torch.equal(turned.cpu(), square.cpu())


def test_messages_in_batches_with_tags_and_of_views(ranks: RankPool) -> None:
    ranks.run(messages)


def handles(rank: int, size: int) -> None:
    tensor = card(rank + 1)
    work = dist.all_reduce(tensor, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    assert doubled.wait().item() == 2 * TOTAL
    assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
    with dist._coalescing_manager(device=torch.device("hpu"), async_ops=True) as manager:
        first, second = card(1), card(2)
        dist.all_reduce(first)
        dist.all_reduce(second)
    manager.wait()
    assert (first.item(), second.item()) == (size, 2 * size)
    tensor = card(rank)
    torch._C._distributed_c10d._register_work(tensor, dist.all_reduce(tensor, async_op=True))
    assert torch.ops._c10d_functional.wait_tensor(tensor).item() == TOTAL - size  # only C++ held the handle
    dist.barrier(device_ids=[0])
    dist.monitored_barrier(timeout=timedelta(seconds=15), wait_all_ranks=True)
    pending = dist.barrier(async_op=True)
    assert pending is not None
    pending.wait()


def test_handles_futures_and_barriers(ranks: RankPool) -> None:
    ranks.run(handles)


def gradients(rank: int, size: int) -> list[tuple[float, float]]:
    source = torch.full((size, 3), rank + 1.0, device="hpu", requires_grad=True)
    row = torch.zeros(3, device="hpu")

    def rows() -> list[torch.Tensor]:
        return list((source * 1).unbind(0))

    attempts: list[Callable[[], torch.Tensor]] = [
        lambda: differentiable.all_reduce(source * 1),
        lambda: torch.stack(differentiable.all_gather(source * 1)),
        lambda: differentiable.broadcast(source * 1, 0),
        lambda: differentiable.reduce_scatter(row.clone(), rows()),
        lambda: torch.stack(differentiable.all_to_all([row.clone() for _ in range(size)], rows())),
        lambda: differentiable.all_to_all_single(torch.zeros(size, 3, device="hpu"), source * 1),
        lambda: differentiable.scatter(rows(), 0),
        lambda: functional.all_gather_tensor_autograd(source * 1, 0, dist.group.WORLD),
        lambda: functional.reduce_scatter_tensor_autograd(source * 1, "sum", 0, dist.group.WORLD),
    ]
    results = []
    for attempt in attempts:
        source.grad = None
        output = attempt().sum()
        output.backward()
        assert source.grad is not None
        results.append((output.item(), source.grad.sum().item()))
    return results


def test_gradients_flow_through_collectives(ranks: RankPool) -> None:
    for rank, values in enumerate(ranks.run(gradients)):
        all_reduce, all_gather, broadcast, reduce_scatter, *exchanges, scatter, gather, scattered = values
        assert all_reduce == (12 * TOTAL, 48) and all_gather == (12 * TOTAL, 48)
        assert broadcast == (12, 48 if rank == 0 else 0)
        assert reduce_scatter == (3 * TOTAL, 12) and exchanges == [(3 * TOTAL, 12)] * 2
        assert scatter == (3, 12 if rank == 0 else 0)
        assert gather == (12 * TOTAL, 48) and scattered == (3 * TOTAL, 12)


def functionals(rank: int, size: int) -> None:
    world = dist.group.WORLD
    tensor = torch.full((size, 2), rank + 1.0, device="hpu")
    whole = TOTAL * size * 2
    assert functional.all_reduce(tensor, "sum", world).sum().item() == whole
    assert functional.all_gather_tensor(tensor, 0, world).sum().item() == whole
    assert functional.reduce_scatter_tensor(tensor, "max", 0, world).sum().item() == size * 2
    assert functional.broadcast(tensor, 1, world).sum().item() == 4 * size
    assert functional.all_to_all_single(tensor, None, None, world).sum().item() == TOTAL * 2
    first, second = functional.all_reduce_coalesced([tensor, tensor * 2], "min", world)
    assert (first.sum().item(), second.sum().item()) == (2 * size, 4 * size)
    gathered = functional.all_gather_into_tensor_coalesced([tensor, tensor[:1]], world)
    assert [part.sum().item() for part in gathered] == [whole, TOTAL * 2]
    out = torch.zeros(size * size, 2, device="hpu")
    operator = torch.ops._c10d_functional.all_gather_into_tensor_out
    torch.ops._c10d_functional.wait_tensor(operator(tensor, size, world.group_name, out=out))  # type: ignore[union-attr]
    assert out.sum().item() == whole


def test_functional_collectives(ranks: RankPool) -> None:
    ranks.run(functionals)


def compiles(rank: int, size: int) -> None:
    world = dist.group.WORLD
    traced: list[str] = []

    def by_function(tensor: torch.Tensor) -> torch.Tensor:
        return functional.all_reduce(tensor * 2, "sum", world) + 1

    def in_place(tensor: torch.Tensor) -> torch.Tensor:
        doubled = tensor * 2
        dist.all_reduce(doubled)
        return doubled + 1

    def broken(tensor: torch.Tensor) -> torch.Tensor:
        doubled = tensor * 2
        dist.reduce(doubled, 0)  # not one that is traced
        dist.broadcast(doubled, 0)
        return doubled + 1

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        traced.append(graph.print_readable(print_output=False))
        return graph.forward

    tensor = torch.full((4,), float(rank), device="hpu")
    for function in (by_function, in_place, broken):
        for kind in (backend, "aot_eager") if function is by_function else (backend,):
            torch._dynamo.reset()
            compiled = torch.compile(function, backend=kind, fullgraph=function is not broken)
            assert compiled(tensor).tolist() == [3] * 4, (function, kind)
    assert sum("all_reduce" in text for text in traced) == 2
    frames = torch._dynamo.utils.counters["frames"]["total"]
    assert frames < 20, "torch.compile looks at our own functions"


@pytest.mark.slow
def test_compiled_functions_with_collectives() -> None:
    run_ranks(2, compiles, backend="hccl")


def groups(rank: int, size: int) -> None:
    if rank < 2:
        pair = dist.new_group([0, 1], use_local_synchronization=True, group_desc="pair", timeout=timedelta(seconds=9))
        tensor = card(1)
        dist.all_reduce(tensor, group=pair)
        assert tensor.item() == 2 and pair.group_desc == "pair" and pair.communicator.timeout_s == 9
    half, _ = dist.new_subgroups(2)
    tensor = card(rank)
    dist.all_reduce(tensor, group=half)
    assert tensor.item() == (1 if rank < 2 else 5)
    odd, _ = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])
    dist.all_reduce(tensor, group=odd)
    assert tensor.item() == 6
    outside = dist.new_group([0])
    if rank:
        with pytest.warns(UserWarning, match="does not belong to the given group"):
            dist.all_reduce(tensor, group=outside)
    mesh = init_device_mesh("hpu", (2, 2), mesh_dim_names=("data", "model"))
    tensor = card(1)
    for name in ("model", "data"):
        dist.all_reduce(tensor, group=mesh[name].get_group())
    assert tensor.item() == 4
    assert dist.get_default_backend_for_device("hpu") == "hccl" and dist.is_backend_available("hccl")


def test_groups_within_the_job(ranks: RankPool) -> None:
    ranks.run(groups)


def captures(rank: int, size: int) -> str:
    tensor = card(1)
    dist.all_reduce(tensor)

    def capture() -> None:
        with ht.hpu.graph(ht.hpu.HPUGraph()):
            dist.all_reduce(tensor * 2)

    text = message(capture)
    dist.all_reduce(tensor)
    assert tensor.item() == size * size
    return text


def test_a_collective_cannot_be_captured(ranks: RankPool) -> None:
    for text in ranks.run(captures):
        assert "is not supported during hpu graph capturing" in text and "collectives" in text


def splits(rank: int, size: int, store: str) -> str:
    card_zero = torch.device("hpu:0")
    dist.init_process_group(
        "cpu:gloo,hpu:hccl", init_method=f"file://{store}", rank=rank, world_size=size, device_id=card_zero
    )
    group = dist.split_group(split_ranks=[[0, 2], [1, 3]], group_desc="half")
    tensor = card(rank)
    dist.all_reduce(tensor, group=group)
    assert tensor.item() == (2 if rank in (0, 2) else 4)
    pair = dist.split_group(split_ranks=[[0, 1]])
    alone = dist.split_group(pair, [[1]]) if rank < 2 else None
    assert (pair is None) == (rank > 1) and (alone is None) == (rank != 1)
    middle = dist.new_group([1, 2])
    if rank in (1, 2):
        dist.broadcast(tensor, 1, group=middle)
    mesh = init_device_mesh("hpu", (2, 2), mesh_dim_names=("data", "model"))
    dist.all_reduce(tensor, group=mesh["data"].get_group())
    dist.destroy_process_group()
    return group.group_desc


def test_groups_are_split_off(tmp_path: Any) -> None:
    values = [outcome.value for outcome in run_ranks(SIZE, splits, f"{tmp_path}/store", backend="")]
    assert values == ["half"] * SIZE


def waits_in_vain(rank: int, size: int) -> list[str]:
    if rank == 2:
        dist.barrier(dist.new_group([0, 1, 2]))
        dist.monitored_barrier(timeout=timedelta(seconds=30))
        return []
    dist.barrier(dist.new_group([0, 1, 2]))
    if rank == 0:
        return [message(lambda: dist.recv(card(0, 0, 0), 1))]
    return [message(lambda: dist.monitored_barrier(timeout=timedelta(seconds=0.6)))]


def test_waits_in_vain_end_with_what_is_missing() -> None:
    outcomes = run_ranks(3, waits_in_vain, backend="hccl", timeout=1.5, may_fail=True)
    receiving, waiting = outcomes[0].value[0], outcomes[1].value[0]
    assert "recv (#1) from rank 1 of float32[3] in process group 0" in receiving
    assert "timed out after 1.5 s: rank 1 has not called the send for it" in receiving or "given up" in receiving
    assert "monitored_barrier: barrier (#1) in process group 0 timed out after 0.6 s waiting for rank 0" in waiting
    assert "has called no collective of this group yet" in waiting


def scatters(rank: int, size: int) -> str:
    assert os.environ["PT_HPU_ENABLE_LAZY_COLLECTIVES"] == "1"
    return message(lambda: dist.scatter(card(0), [card(1)] * size if rank == 0 else None, src=0))


def test_lazy_collectives_have_no_scatter() -> None:
    for outcome in run_ranks(2, scatters, backend="hccl", PT_HPU_ENABLE_LAZY_COLLECTIVES="1"):
        assert "scatter is currently not supported with HCCL" in outcome.value
