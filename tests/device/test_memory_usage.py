"""What memory is used for: categories told before and after, learned from graphs that repeat, and the timeline."""

from __future__ import annotations

import torch

from device.memory import INITIAL_WORKSPACE, RESERVED_BYTES, Category, Hbm
from device.memory.labelling import Labeller, address_of
from device.memory.usage import MAX_STEPS
from device.spec import load_card

GAUDI2 = load_card("gaudi2")
KIB = 1024
SOURCES = ("weights", "gradients", "optimizer_state", "activations", "other", "workspace")


def use(row: dict[str, object], *names: str) -> list[object]:
    return [row[name] for name in names]


class TestCategories:
    def test_results_of_graphs_are_activations_and_copies_are_other_until_told(self) -> None:
        memory = Hbm(GAUDI2)
        memory.reserve([(1, 4 * KIB, -1), (2, 2 * KIB, 0)], 0, "graph")
        memory.label(1, Category.WEIGHTS)
        memory.label(3, Category.GRADIENTS)  # not resident yet
        memory.reserve([(3, KIB, 1)], 0, "graph")
        (*_, now) = memory.timeline(1.0)
        assert use(now, *SOURCES) == [4 * KIB, KIB, 0, 2 * KIB, RESERVED_BYTES, INITIAL_WORKSPACE]
        assert now["in_use"] == sum(now[name] for name in SOURCES) == memory.in_use

    def test_a_graph_that_runs_again_makes_the_same(self) -> None:
        memory = Hbm(GAUDI2)
        for step, address in enumerate((10, 20, 30)):
            memory.reserve([(address, KIB, 0), (address + 1, 2 * KIB, 1)], 0, "graph")
            if step == 0:
                memory.label(address, Category.GRADIENTS)
            (*_, now) = memory.timeline(0.0)
            assert use(now, "gradients", "activations") == [KIB, 2 * KIB]
            memory.apply([(address, -KIB, -1), (address + 1, -2 * KIB, -1)])

    def test_nothing_is_learned_where_one_operator_makes_everything(self) -> None:
        memory = Hbm(GAUDI2, learn=False)
        for address in (10, 20):
            memory.reserve([(address, KIB, 0)], 0, "aten::mm")
            memory.label(10, Category.GRADIENTS)
        (*_, now) = memory.timeline(0.0)
        assert use(now, "gradients", "activations") == [KIB, KIB]


class TestTimeline:
    def test_the_highest_point_and_the_end_of_each_step(self) -> None:
        memory = Hbm(GAUDI2)
        for step in range(2):
            moment = float(step)
            memory.reserve([(1, 8 * KIB, 0)], 0, "forward", moment + 0.25)
            memory.reserve([(2, KIB, 0)], 0, "backward", moment + 0.5)
            memory.apply([(1, -8 * KIB, -1)])
            memory.end_step(moment + 1, step + 1)
            memory.apply([(2, -KIB, -1)])
        rows = memory.timeline(3.0)
        assert [use(row, "moment", "step", "activations") for row in rows] == [
            [0.0 + 0.5, 0, 9 * KIB],
            [1.0, 0, KIB],
            [1.5, 1, 9 * KIB],
            [2.0, 1, KIB],
            [3.0, 2, 0],
        ]
        peak = memory.at_peak()
        assert use(peak, "moment", "step", "activations", "origin") == [0.5, 0, 9 * KIB, "backward"]

    def test_a_later_label_corrects_the_samples_since_the_allocation(self) -> None:
        memory = Hbm(GAUDI2)
        memory.reserve([(1, 8 * KIB, 0)], 0, "forward", 0.25)
        memory.end_step(1.0, 1)
        memory.reserve([(2, KIB, 0)], 0, "backward", 1.5)
        memory.end_step(2.0, 2)
        memory.label(2, Category.GRADIENTS)
        rows = memory.timeline(2.0)
        assert [use(row, "activations", "gradients") for row in rows] == [
            [8 * KIB, 0],
            [8 * KIB, KIB],
            [8 * KIB, KIB],
        ]
        assert use(memory.at_peak(), "activations", "gradients") == [8 * KIB, KIB]

    def test_a_long_run_keeps_few_samples_and_its_peak(self) -> None:
        memory = Hbm(GAUDI2)
        steps = 10 * MAX_STEPS
        for step in range(steps):
            nbytes = 64 * KIB if step == 777 else 2 * KIB
            memory.reserve([(step, nbytes, 0)], 0, f"graph of {nbytes}", step + 0.5)
            memory.apply([(step, -nbytes, -1)])
            memory.end_step(step + 1.0, step + 1)
        rows = memory.timeline(float(steps))
        assert MAX_STEPS // 2 < len(rows) <= 2 * MAX_STEPS + 2
        assert max(row["activations"] for row in rows) == memory.at_peak()["activations"] == 64 * KIB
        assert [row["moment"] for row in rows] == sorted(row["moment"] for row in rows)


class TestLabeller:
    def test_only_tensors_on_the_card_have_an_address(self) -> None:
        assert address_of(torch.ones(3)) == 0
        assert address_of(torch.ones(3, device="meta")) == 0
        assert address_of(torch.ones(3, device="hpu")) > 0

    def test_an_optimizer_is_walked_only_while_new_graphs_come_up(self) -> None:
        memory = Hbm(GAUDI2)
        labeller = Labeller(lambda: memory)
        weight = torch.nn.Parameter(torch.ones(64, device="hpu"))
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)

        def step() -> torch.Tensor:
            weight.grad = torch.ones(64, device="hpu")
            optimizer.step()
            labeller.label_optimizer(optimizer)
            memory.reserve([(address_of(weight.grad), 256, 0)], 0, "backward")
            return weight.grad

        memory.apply([(address_of(weight), 256, -1)])
        gradients = [step() for _ in range(3)]  # the second step sees the graph of the first, the third nothing new
        memory.apply([(address_of(optimizer.state[weight]["momentum_buffer"]), 256, 3)], "backward")
        (*_, now) = memory.timeline(0.0)
        assert use(now, "weights", "gradients", "optimizer_state") == [256, 3 * 256, 256]
        assert len({address_of(gradient) for gradient in gradients}) == 3
