"""A report's run, played again on another kind of card or another network, and compared with what it was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collectives.roce.network import Network
from device.errors import ConfigurationError
from device.replay import CardReplay
from device.spec import CardSpec

from .joint_replay import JointReplay
from .report import FORMAT as REPORT_FORMAT
from .run_logs import ReplayError, records_of

TOP_NODES = 10


# -- the comparison ------------------------------------------------------------------------------------------------


def compare(report: Any, spec: CardSpec | None = None, another_network: bool = False) -> dict[str, Any]:
    """A report's run as it was and on another card, or in another network, side by side, as plain data.

    `spec`: the other card (None: the same). `another_network`: the other network is the one that the environment
    describes; else boxes of the other card are joined as those of the run were.

    Returns: "recorded" and "replayed": per rank the figures of `CardReplay.figures`, with steps per second and peak
    of memory against the limit; "ratios" per rank, recorded by replayed, so that above 1 the other card is faster;
    "nodes": the engine nodes that take most time on the recorded card, over all ranks; "unmatched", "truncated".

    Raises:
        ReplayError: the report cannot be replayed.
        ConfigurationError: the box of the other card is not described, or too small for the job.
    """
    records = records_of(report, REPORT_FORMAT)
    origin = next(iter(records.values())).card
    network, modules = network_of(report, origin)
    sides = []
    other = origin if spec is None else spec
    for card, joined in (
        (origin, network),
        (other, Network.of_environment(other, len(modules)) if another_network else network.on(other)),
    ):
        try:
            joint = JointReplay(records, card, joined, modules)
            joint.run()
        except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:  # LogError among them
            if isinstance(error, (ConfigurationError, ReplayError)):
                raise
            raise ReplayError(f"its log cannot be played: {type(error).__name__}: {error}") from error
        sides.append(joint)
    try:
        peaks = {card["rank"]: int(card["memory"]["peak"]) for card in report["cards"]}
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ReplayError(f"a card's record has no peak of memory: {error}") from error
    recorded, replayed = ([_side(joint, rank, peaks[rank]) for rank in records] for joint in sides)
    return {
        "format": REPORT_FORMAT,
        "units": "modelled seconds, bytes; ratios: recorded by replayed",
        "run": report.get("run", {}),
        "cards": [origin.name, other.name],
        "recorded": recorded,
        "replayed": replayed,
        "ratios": [_ratios(before, after) for before, after in zip(recorded, replayed, strict=True)],
        "nodes": top_nodes(list(sides[0].cards.values()), list(sides[1].cards.values())),
        "unmatched": max(joint.unmatched for joint in sides),
        "truncated": any(record.truncated for record in records.values()),
    }


def network_of(report: Any, card: CardSpec) -> tuple[Network, dict[int, int | None]]:
    """The network on which a report's run took place, and the modules of its ranks.

    Raises:
        ReplayError: the report's description is damaged.
        ConfigurationError: its box or fabric cannot be used.
    """
    try:
        modules = {entry["rank"]: entry["module"] for entry in report["cards"]}
        plain = report["run"]["network"]
        return Network.of_environment(card, len(modules)) if plain is None else Network.from_plain(plain), modules
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ReplayError(f"its network is damaged: {type(error).__name__}: {error}") from error


def _side(joint: JointReplay, rank: int, peak: int) -> dict[str, Any]:
    card = joint.cards[rank]
    figures = card.figures()
    step, limit = figures["time"]["step"], card.spec.hbm.pool_bytes
    return {
        "rank": rank,
        **figures,
        "steps_per_second": 1.0 / step if step > 0 else 0.0,
        "memory": {"peak": peak, "limit": limit, "fits": peak <= limit},
    }


def _ratios(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, float | None]:
    def ratio(one: float, other: float) -> float | None:
        return one / other if other > 0 else None

    return {
        "total": ratio(before["time"]["total"], after["time"]["total"]),
        "step": ratio(before["time"]["step"], after["time"]["step"]),
        "device": ratio(before["device_seconds"], after["device_seconds"]),
        "compile": ratio(before["compile_seconds"], after["compile_seconds"]),
        "collectives": ratio(before["collectives"]["seconds"], after["collectives"]["seconds"]),
    }


def top_nodes(
    before: Sequence[CardReplay], after: Sequence[CardReplay], count: int = TOP_NODES
) -> list[dict[str, Any]]:
    """Engine nodes of one kernel and source line together, the longest on the recorded cards first.

    `bound`: what limits the longest of them on the recorded and on the other card.
    """
    sides = [_nodes(cards) for cards in (before, after)]
    longest = sorted(sides[0], key=lambda key: (-sides[0][key].seconds, key))[:count]
    return [
        {
            "kernel": key[0],
            "engine": key[1],
            "where": key[2],
            "seconds": [side[key].seconds for side in sides],
            "bound": [side[key].bound for side in sides],
        }
        for key in longest
    ]


@dataclass
class _Share:
    seconds: float = 0.0
    longest: float = -1.0
    bound: str = ""


def _nodes(cards: Sequence[CardReplay]) -> dict[tuple[str, str, str], _Share]:
    shares: dict[tuple[str, str, str], _Share] = defaultdict(_Share)
    for card in cards:
        for name, recipe in card.recipes.items():
            for entry in recipe.nodes:
                share = shares[entry.node.kernel, entry.node.engine.value, entry.node.where]
                seconds = entry.seconds * card.launches[name]
                share.seconds += seconds
                if seconds > share.longest:
                    share.longest, share.bound = seconds, entry.bound
    return shares
