"""Memory of a card that is filled with one number costs this machine next to nothing, however large it is."""

from __future__ import annotations

import resource

import pytest
import torch

import habana_frameworks.torch.core as htcore

GIB = 2**30


def _resident() -> int:
    """Bytes of this machine's memory that the process has used at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_most_of_the_card_filled_with_ones_and_with_zeros() -> None:
    before = _resident()
    elements = int(torch.hpu.mem_get_info()[1] * 0.8) // 4
    for number in (1.0, 0.0, -2.5):
        tensor = torch.full((elements,), number, device="hpu")
        htcore.mark_step()
        assert torch.hpu.memory_allocated() > 0.79 * torch.hpu.mem_get_info()[1]
        assert [tensor[0].item(), tensor[elements // 3].item(), tensor[-1].item()] == [number] * 3
        del tensor
    assert _resident() - before < GIB


def test_what_is_written_later_stands_where_it_was_written() -> None:
    tensor = torch.ones(3 * GIB // 4, device="hpu")
    tensor[5] = 7
    tensor[2**24 : 2**24 + 3] += 1
    assert tensor[4:7].tolist() == [1, 7, 1]
    assert tensor[2**24 - 1 : 2**24 + 4].tolist() == [1, 2, 2, 2, 1]
    tensor.fill_(2)
    assert tensor[4:7].tolist() == [2, 2, 2]
    assert tensor[2**24].item() == 2


def test_values_that_need_the_machines_memory_are_refused_where_it_lacks_them() -> None:
    """The process goes on. Only where the card is larger than this machine, which decides what is tested."""
    elements = int(torch.hpu.mem_get_info()[1] * 0.8) // 4
    with open("/proc/meminfo") as file:
        available = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in file}["MemAvailable"]
    if available > 4 * elements:
        pytest.skip("this machine has more memory than the card")
    tensor = torch.ones(elements, device="hpu")
    tensor.add_(1)
    with pytest.raises(RuntimeError, match=r"no host memory for .* bytes of an hpu tensor"):
        htcore.mark_step()
    del tensor
    assert (torch.ones(3, device="hpu") * 2).sum().item() == 6


def test_a_number_on_the_host_counts_as_it_was_when_the_operator_was_called() -> None:
    factor = torch.tensor(2.0)
    doubled = torch.ones(3, device="hpu") * factor
    factor.fill_(3)
    assert doubled.tolist() == [2, 2, 2]


def test_a_number_of_python_does_not_decide_the_result_s_type() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int32):
        total = torch.ones(3, device="hpu", dtype=dtype).sum(dtype=dtype)  # of no dimension, as the number
        for number in (2.5, 2, torch.tensor(2.5, dtype=torch.float64), torch.tensor(2)):
            for by in (torch.mul, torch.sub, torch.div, torch.pow, torch.maximum):
                if by is torch.maximum and not isinstance(number, torch.Tensor):
                    continue
                got, wanted = by(total, number), by(torch.tensor(3, dtype=dtype), number)
                assert got.dtype == wanted.dtype and torch.allclose(got.cpu(), wanted), (dtype, number, by)


def test_memory_of_a_captured_graph_may_not_shrink() -> None:
    graph, inputs = torch.hpu.HPUGraph(), torch.ones(4, device="hpu")
    htcore.mark_step()
    with torch.hpu.graph(graph):
        doubled = inputs * 2
    inputs.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="resized after the capture, from 16 to 0 bytes; capture the graph again"):
        graph.replay()
    inputs.untyped_storage().resize_(16)
    inputs.fill_(5)
    graph.replay()
    assert doubled.tolist() == [10, 10, 10, 10]
