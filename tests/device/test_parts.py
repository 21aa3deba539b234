"""The parts of a card by themselves: module choice, shares of time, recipe cache, compiler, causes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device.errors import ConfigurationError
from device.graph.causes import FIRST, explain
from device.graph.ir import Buffer, Graph, Node, Operand, Window
from device.modules import own_module, visible_modules
from device.recipe_cache import RecipeCache
from device.shares import time_shares
from device.spec import load_card

GAUDI2 = load_card("gaudi2")


def window(*sizes: int, dtype: str = "Float", offset: int = 0) -> Window:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return Window(dtype, sizes, tuple(reversed(strides)), offset)


def chain(*ops: str, size: int = 4, where: str = "train.py:1") -> Graph:
    """x -> op -> op -> ...; each result but the last is workspace."""
    nodes, prefix = [], f"{size}"
    for number, op in enumerate(ops):
        prefix += op
        nodes.append(
            Node(
                f"aten::{op}",
                (Operand("self", number, window(size)),),
                (Operand("out0", number + 1, window(size)),),
                (),
                (),
                where,
                prefix,
            )
        )
    buffers = [Buffer(4 * size, resident=number == 0, live=number in (0, len(ops))) for number in range(len(ops) + 1)]
    return Graph(prefix, tuple(nodes), tuple(buffers))


class TestModules:
    @pytest.mark.parametrize(
        ("environ", "modules"),
        [
            ({}, [0, 1, 2, 3, 4, 5, 6, 7]),
            ({"HABANA_VISIBLE_DEVICES": "all"}, [0, 1, 2, 3, 4, 5, 6, 7]),
            ({"HABANA_VISIBLE_DEVICES": "none"}, []),
            ({"HABANA_VISIBLE_DEVICES": "2,5"}, [2, 5]),
            ({"HABANA_VISIBLE_DEVICES": "2, 5", "HABANA_VISIBLE_MODULES": "7"}, [7]),
        ],
    )
    def test_choice(self, environ: dict[str, str], modules: list[int]) -> None:
        assert visible_modules(environ) == modules

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("0,0", "card 0 is named twice"),
            ("9", "there is no card 9"),
            ("x", "'x' is not a card index"),
            ("", "empty"),
        ],
    )
    def test_bad_choices_name_the_value(self, text: str, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            visible_modules({"HABANA_VISIBLE_DEVICES": text})

    def test_own_module(self) -> None:
        assert own_module({"HLS_MODULE_ID": "6"}) == 6
        assert own_module({"HABANA_VISIBLE_MODULES": "4,6", "LOCAL_RANK": "1"}) == 6
        assert own_module({}) == 0


class TestShares:
    @given(st.floats(0, 10), st.floats(0, 10), st.floats(0, 10), st.floats(0, 10))
    def test_shares_add_up(self, total: float, compiling: float, collectives: float, device: float) -> None:
        shares = time_shares(total, compiling, collectives, device)
        parts = shares["host"] + shares["compile"] + shares["device"] + shares["collectives"]
        assert parts == pytest.approx(total, abs=1e-12)
        assert min(shares.values()) >= 0


class TestRecipeCache:
    def test_least_recently_used_leaves(self) -> None:
        cache: RecipeCache[int] = RecipeCache(3)
        for number in range(3):
            cache.put(str(number), number)
        assert cache.get("0") == 0
        cache.put("3", 3)
        assert cache.get("1") is None
        assert (cache.hits, cache.misses, len(cache), cache.latest()) == (1, 1, 3, 3)

    def test_capacity_has_a_floor(self) -> None:
        assert RecipeCache(0).capacity == 3

    def test_may_change_while_it_is_looked_at(self) -> None:
        cache: RecipeCache[int] = RecipeCache(3)
        for number in range(3):
            cache.put(str(number), number)
        seen = []
        for entry in cache:
            cache.put(f"another thread's {entry}", entry)
            seen.append(entry)
        assert seen == [0, 1, 2]


class TestCauses:
    def test_the_first_graph(self) -> None:
        cause = explain(chain("relu"), [])
        assert (cause.text, cause.is_recompilation, cause.where) == (FIRST, False, "train.py:1")

    def test_an_unrelated_graph_is_a_first_graph(self) -> None:
        assert explain(chain("sin", "cos", "tan"), [chain("relu", "mm", "add", "mul")]).text == FIRST

    def test_a_size(self) -> None:
        cause = explain(chain("relu", "add", size=5), [chain("relu", "add", size=4)])
        assert cause.text == "size of dimension 0 of self changed in relu"
        assert cause.detail == "(4,) -> (5,)"
        assert cause.is_recompilation

    def test_another_operator(self) -> None:
        cause = explain(chain("relu", "add", "mul", "sum"), [chain("relu", "add", "div", "sum")])
        assert cause.text == "mul where div was"

    def test_a_longer_graph(self) -> None:
        cause = explain(chain("relu", "add", "mul", "sum"), [chain("relu", "add", "mul")])
        assert cause.text == "the graph goes on with sum"

    def test_the_nearest_one_is_compared(self) -> None:
        near, far = chain("relu", "add", "mul", size=4), chain("sin", "cos", "tan", size=5)
        assert explain(chain("relu", "add", "mul", size=6), [near, far]).detail == "(4,) -> (6,)"
