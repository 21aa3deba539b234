"""Dynamic shapes: which graphs share a recipe, how far a bucket reaches, and what refines it."""

from __future__ import annotations

import logging
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device.bucket_policies import History, Policies, bounds, read_policies
from device.buckets import MAX_BUCKETS, Buckets, DynamicShapes
from device.errors import ConfigurationError
from device.graph.ir import Buffer, Graph, Node, Operand, Window
from device.graph.shape_free import input_sizes, shape_free_key
from habana_frameworks.torch.hpu import dynamic_shapes as names


def window(*sizes: int, dtype: str = "Float", transposed: bool = False) -> Window:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    if transposed:
        return Window(dtype, sizes[::-1], tuple(strides), 0)
    return Window(dtype, sizes, tuple(reversed(strides)), 0)


def sweep(batch: int, features: int = 3, *, scale: float = 2.0, dtype: str = "Float", live: bool = True) -> Graph:
    """(x * scale).sum() for x of (batch, features)."""
    x = Operand("self", 0, window(batch, features, dtype=dtype))
    y = Operand("out", 1, window(batch, features, dtype=dtype))
    z = Operand("out", 2, Window(dtype, (), (), 0))
    signature = f"{batch} {features}"
    return Graph(
        signature,
        (
            Node("aten::mul.out", (x, y), (), (y,), (("other", scale),), "train.py:1", "a"),
            Node("aten::sum.IntList_out", (Operand("self", 1, y.window), z), (), (z,), (), "train.py:1", "b"),
        ),
        (
            Buffer(4 * batch * features, resident=True, live=True),
            Buffer(4 * batch * features, resident=False, live=False),
            Buffer(4, resident=False, live=live),
        ),
    )


def factory(batch: int) -> Graph:
    """torch.zeros(batch, 3): its sizes are an argument."""
    out = Operand("out0", 0, window(batch, 3))
    node = Node("aten::zeros", (), (out,), (), (("size", (batch, 3)), ("dtype", "Float")), "train.py:1", "a")
    return Graph(str(batch), (node,), (Buffer(12 * batch, resident=False, live=True),))


def compilations(buckets: Buckets, *graphs: Graph) -> list[bool]:
    """Which of the graphs, each run once, had to be compiled."""
    compiled = []
    for graph in graphs:
        admission = buckets.admit(graph)
        buckets.ran(admission)
        compiled.append(admission.compile)
    return compiled


class TestKey:
    def test_sizes_are_no_part_of_it(self) -> None:
        assert shape_free_key(sweep(4)) == shape_free_key(sweep(5)) == shape_free_key(sweep(9, 7))
        assert shape_free_key(factory(4)) == shape_free_key(factory(5))

    def test_all_else_is(self) -> None:
        others = [sweep(4, scale=3.0), sweep(4, dtype="BFloat16"), sweep(4, live=False), sweep(1), sweep(4, 1)]
        keys = {shape_free_key(graph) for graph in [sweep(4), *others]}
        assert len(keys) == 6

    def test_the_order_in_memory_is(self) -> None:
        def graph(transposed: bool, batch: int) -> Graph:
            x = Operand("self", 0, window(batch, 3, transposed=transposed))
            out = Operand("out0", 1, Window("Float", (), (), 0))
            node = Node("aten::sum", (x,), (out,), (), (), "", "a")
            return Graph("", (node,), (Buffer(12 * batch, True, True), Buffer(4, False, True)))

        assert shape_free_key(graph(False, 3)) != shape_free_key(graph(True, 3))
        assert shape_free_key(graph(True, 3)) == shape_free_key(graph(True, 8))

    def test_sizes_are_those_of_what_comes_in(self) -> None:
        assert input_sizes(sweep(4)) == ((4, 3),)
        assert input_sizes(factory(4)) == ((4, 3),)


class TestBuckets:
    def test_a_growing_batch_compiles_twice(self) -> None:
        """R18: 24 is static, 25 makes a bucket from 24 to 50."""
        buckets = Buckets(Policies())
        assert compilations(buckets, *map(sweep, range(24, 29))) == [True, True, False, False, False]
        bucket = buckets.admit(sweep(50)).bucket
        assert (bucket.low, bucket.high) == (((24, 3),), ((50, 3),))

    def test_the_first_sizes_have_a_recipe_of_their_own(self) -> None:
        buckets = Buckets(Policies())
        first = buckets.admit(sweep(24))
        buckets.admit(sweep(25))
        again = buckets.admit(sweep(24))
        assert again.bucket is first.bucket
        assert again.bucket.is_static
        assert not again.compile

    def test_beyond_a_bucket_begins_the_next(self) -> None:
        buckets = Buckets(Policies())
        assert compilations(buckets, *map(sweep, (24, 25, 50, 51, 102, 103))) == [True, True, False, True, False, True]
        # Local history since the bucket of 25: 25, 50, 51.
        assert buckets.admit(sweep(51)).bucket.low == ((25, 3),)

    def test_below_a_bucket_too(self) -> None:
        buckets = Buckets(Policies())
        assert compilations(buckets, sweep(24), sweep(25), sweep(8)) == [True, True, True]
        bucket = buckets.admit(sweep(8)).bucket
        assert (bucket.low, bucket.high) == (((8, 3),), ((16, 3),))

    def test_a_dimension_that_never_changed_keeps_its_size(self) -> None:
        buckets = Buckets(Policies())
        assert compilations(buckets, sweep(24, 3), sweep(25, 3), sweep(25, 4)) == [True, True, True]
        assert buckets.admit(sweep(25, 4)).bucket.high == ((50, 8),)

    def test_a_batch_of_one_broadcasts_and_stands_apart(self) -> None:
        buckets = Buckets(Policies())
        assert compilations(buckets, sweep(1), sweep(2), sweep(3), sweep(1), sweep(4)) == [
            True, True, True, False, False,
        ]  # fmt: skip

    def test_at_most_twenty_buckets(self) -> None:
        buckets = Buckets(Policies(minimum=(3, 1), maximum=(3, 1)))  # no room ahead: each new maximum is a new bucket
        assert all(compilations(buckets, *(sweep(n) for n in range(2, 2 + MAX_BUCKETS))))
        later = buckets.admit(sweep(100))
        assert later.compile
        assert later.bucket.is_static
        assert buckets.admit(sweep(100)).compile  # it was not kept
        assert not buckets.admit(sweep(10)).compile

    def test_a_size_beyond_the_cards_is_left_to_the_next_policy(self) -> None:
        buckets = Buckets(Policies())
        buckets.admit(sweep(2**30, 1))
        bucket = buckets.admit(sweep(2**30 + 5, 1)).bucket  # twice is no 32-bit size: local historic
        assert bucket.high == ((2**30 + 5, 1),)

    @given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6)), min_size=1, max_size=60))
    def test_every_graph_is_in_its_bucket_and_buckets_are_few(self, sizes: list[tuple[int, int]]) -> None:
        buckets = Buckets(Policies())
        for batch, features in sizes:
            admission = buckets.admit(sweep(batch, features))
            assert admission.bucket.holds(admission.sizes)
            assert admission.bucket.number <= MAX_BUCKETS
            buckets.ran(admission)


class TestRefinement:
    def test_the_fifth_run_tightens_a_loose_bucket(self) -> None:
        buckets = Buckets(Policies())
        for batch in (24, 25, 26, 27, 28):
            assert buckets.ran(buckets.admit(sweep(batch))) is None
        refinement = buckets.ran(buckets.admit(sweep(29)))  # the bucket of 25 to 50, its fifth run
        assert refinement is not None
        assert refinement.kept  # 29 of 50: 42 % fewer elements
        assert (refinement.bucket.low, refinement.bucket.high) == (((25, 3),), ((29, 3),))
        assert buckets.admit(sweep(28)).bucket is refinement.bucket
        assert buckets.admit(sweep(40)).bucket.high == ((50, 3),)
        assert buckets.ran(buckets.admit(sweep(40))) is None  # once

    def test_what_gains_too_little_is_thrown_away(self) -> None:
        buckets = Buckets(Policies(threshold_percent=45.0))
        for batch in (24, 25, 26, 27, 28):
            buckets.ran(buckets.admit(sweep(batch)))
        refinement = buckets.ran(buckets.admit(sweep(29)))
        assert refinement is not None
        assert not refinement.kept
        assert buckets.admit(sweep(28)).bucket.high == ((50, 3),)

    def test_a_static_bucket_is_tight(self) -> None:
        buckets = Buckets(Policies())
        assert all(buckets.ran(buckets.admit(sweep(24))) is None for _ in range(20))


class TestSettings:
    def test_defaults(self) -> None:
        assert read_policies({}) == Policies((4, 5, 3, 1), (2, 4, 5, 3, 1), 10.0)

    def test_orders_and_threshold(self) -> None:
        environ = {
            "PT_HPU_DYNAMIC_MIN_POLICY_ORDER": "3,1",
            "PT_HPU_DYNAMIC_MAX_POLICY_ORDER": "2, 3, 1",
            "PT_HPU_DS_TIME_IMPROVE_THRESHOLD_PERCENT": "25",
        }
        assert read_policies(environ) == Policies((3, 1), (2, 3, 1), 25.0)

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("PT_HPU_DYNAMIC_MIN_POLICY_ORDER", "4,5,1,3", "must end in 3,1; use 4,5,3,1"),
            ("PT_HPU_DYNAMIC_MAX_POLICY_ORDER", "2", "must end in 3,1; use 2,4,5,3,1"),
            ("PT_HPU_DYNAMIC_MAX_POLICY_ORDER", "7,3,1", "'7' is not a policy"),
            ("PT_HPU_DYNAMIC_MAX_POLICY_ORDER", "2;3,1", "'2;3' is not a policy"),
            ("PT_HPU_DS_TIME_IMPROVE_THRESHOLD_PERCENT", "some", "'some' is not a percentage"),
            ("PT_HPU_DS_TIME_IMPROVE_THRESHOLD_PERCENT", "-1", "is not a percentage"),
        ],
    )
    def test_a_bad_value_is_named(self, name: str, value: str, message: str) -> None:
        with pytest.raises(ConfigurationError) as caught:
            read_policies({name: value})
        assert name in str(caught.value)
        assert message in str(caught.value)

    @pytest.mark.parametrize(
        ("policy", "low", "high"),
        [(1, 40, 40), (2, 20, 80), (3, 10, 100), (4, 20, 40), (5, 20, 40)],
        ids=["current", "calculated", "historic", "local", "local per tensor"],
    )
    def test_policies(self, policy: int, low: int, high: int) -> None:
        """100 and 10 came first; then a bucket was made for 20, and now 40 has come. A second input stays at 7."""
        history = History.of(((100,), (7,)))
        history.see(((10,), (7,)))
        history.begin_locally(((20,), (7,)))
        history.see(((40,), (7,)))
        policies = Policies(minimum=(policy, 3, 1), maximum=(policy, 3, 1))
        assert bounds(history, ((40,), (7,)), policies) == (((low,), (7,)), ((high,), (7,)))

    def test_per_tensor_looks_further_back_for_a_tensor_that_stayed(self) -> None:
        history = History.of(((100,), (9,)))
        history.begin_locally(((20,), (7,)))
        history.see(((20,), (7,)))
        history.see(((40,), (7,)))
        policies = Policies(minimum=(5, 3, 1), maximum=(5, 3, 1))
        assert bounds(history, ((40,), (7,)), policies) == (((20,), (7,)), ((40,), (9,)))


class TestSwitch:
    def test_capture_switches_off_for_good(self) -> None:
        switch = DynamicShapes(True)
        assert switch.on
        switch.disable()
        assert not switch.on
        switch.enable()
        switch.close()
        assert not switch.on
        switch.enable()
        assert not switch.on

    def test_the_names_of_torch_hpu(self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        monkeypatch.setattr(names, "dynamic_shapes", DynamicShapes(False))
        assert not names.get_dynamic_shape_status()
        names.enable_dynamic_shape()
        assert names.get_dynamic_shape_status()
        names.disable_dynamic_shape()
        assert not names.get_dynamic_shape_status()
        names.dynamic_shapes.close()
        names.enable_dynamic_shape()
        assert not names.get_dynamic_shape_status()
        assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_the_volume_counts_inputs_at_their_largest() -> None:
    buckets = Buckets(Policies())
    buckets.admit(sweep(24))
    assert buckets.admit(sweep(25)).bucket.volume == math.prod((50, 3))
