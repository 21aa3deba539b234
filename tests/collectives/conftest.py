"""PyTorch first: it loads the hpu device, and with it our packages, in the order in which a script would have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch  # noqa: F401

from .rank_pool import RankPool

Pools = Callable[[int, str], RankPool]


@pytest.fixture(scope="package")
def pools() -> Iterator[Pools]:
    """Pools of ranks by size and PT_HPU_LAZY_MODE, made when first asked for."""
    made: dict[tuple[int, str], RankPool] = {}

    def pool(size: int, lazy: str) -> RankPool:
        if (size, lazy) not in made:
            made[size, lazy] = RankPool(size, PT_HPU_LAZY_MODE=lazy)
        return made[size, lazy]

    yield pool
    for ranks in made.values():
        ranks.close()


@pytest.fixture(params=("1", "0"), ids=("lazy", "eager"))
def pair(request: pytest.FixtureRequest, pools: Pools) -> RankPool:
    """Two ranks on cards, in both modes."""
    return pools(2, request.param)


@pytest.fixture
def lazy_pair(pools: Pools) -> RankPool:
    """Two ranks on cards in lazy mode."""
    return pools(2, "1")


@pytest.fixture
def four(pools: Pools) -> RankPool:
    """Four ranks on cards in lazy mode."""
    return pools(4, "1")
