"""The lines that `habana_perf_tool` prints, tagged as the real tool tags its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .advice import advice
from .summary import Summary
from .tracks import Chain, Node

TAG = "pytorch_profiler - DEBUG - "

SHOWN_US = 0.5
"""From this on, in us, a time is not printed as 0.000 ms."""


def lines(summary: Summary, top: int) -> Iterator[str]:
    """All lines, without the tag."""
    both = summary.device_busy + summary.host_work
    device_part = summary.device_busy / both if both else 1.0
    yield f"Device/Host ratio: {_percent(device_part)} / {_percent(1 - device_part)}"
    yield ""
    yield "Host Summary:"
    for title, time in (
        ("Graph Build", summary.graph_build),
        ("DataLoader", summary.data_loader),
        ("Input Time", summary.input_time),
        ("Compile Time", summary.compile_time),
        ("Launch", summary.launch + summary.eager),
    ):
        yield f"  {title}: {_ms(time)}"
    yield ""
    yield "Device Summary:"
    yield f"  MME lower precision ratio: {_optional(summary.lower_precision)}"
    yield f"  MME/TPC overlap degree: {_optional(summary.overlap)}"
    for engine, time in summary.engines.items():
        steady = summary.steady_engines[engine]
        outside = f"; {_ms(time - steady)} of it outside the steady time" if time - steady >= SHOWN_US else ""
        yield f"  {engine} total: {_ms(time)} ({_percent(summary.share(steady))}{outside})"
    yield f"  Idle: {_ms(summary.idle)} ({_percent(summary.share(summary.idle))})"
    yield ""
    yield "Top nodes:"
    total = sum(node.total for node in summary.nodes) or 1.0
    for number, node in enumerate(summary.nodes[:top], start=1):
        yield _node(number, node, total)
    if summary.chains:
        yield ""
        yield "Missed fusions:"
        for chain in summary.chains[:top]:
            yield _chain(chain)
    yield ""
    yield "Recommendations:"
    for number, text in enumerate(advice(summary), start=1):
        yield f"  {number}. {text}"
    yield ""
    yield verdict(summary)


def verdict(summary: Summary) -> str:
    """Which of the two holds up the other."""
    if not summary.has_kernels:
        return "Verdict: none (the HPU copied, but computed nothing)"
    idle = f"the HPU idles {_percent(summary.share(summary.idle))} of {_ms(summary.steady)} without compilation"
    if not summary.has_host:
        return f"Verdict: {summary.bound} ({idle}; the trace has no events of the host)"
    waiting, host, device = (
        _percent(summary.share(part)) for part in (summary.idle_with_host, summary.host_busy, summary.device_busy)
    )
    hidden = summary.host_work - summary.host_busy
    text = f"{idle}, {waiting} while the host works; busy: host {host}, HPU {device}"
    if hidden >= SHOWN_US:
        text += f"; {_ms(hidden)} more of the host's work lies where graphs are compiled"
    return f"Verdict: {summary.bound} ({text})"


def as_json(summary: Summary, top: int) -> dict[str, Any]:
    """The same figures as an object; times in us, shares from 0 to 1."""
    return {
        "verdict": summary.bound,
        "steady_us": summary.steady,
        "idle_share": summary.share(summary.idle),
        "idle_while_host_works_share": summary.share(summary.idle_with_host),
        "host_busy_share": summary.share(summary.host_busy),
        "device_busy_share": summary.share(summary.device_busy),
        "host_us": {
            "graph_build": summary.graph_build,
            "data_loader": summary.data_loader,
            "input": summary.input_time,
            "compile": summary.compile_time,
            "launch": summary.launch + summary.eager,
        },
        "host_work_us": summary.host_work,
        "engines_us": summary.engines,
        "engine_shares": {engine: summary.share(time) for engine, time in summary.steady_engines.items()},
        "mme_lower_precision_ratio": summary.lower_precision,
        "mme_tpc_overlap_degree": summary.overlap,
        "top_nodes": [vars(node) for node in summary.nodes[:top]],
        "missed_fusions": [vars(chain) for chain in summary.chains[:top]],
        "recommendations": advice(summary),
    }


def _node(number: int, node: Node, total: float) -> str:
    text = (
        f"  {number}. {node.engine} {node.kernel}: {_ms(node.total)} ({_percent(node.total / total)}), {node.count} x"
    )
    if node.name and node.name != node.kernel:
        text += f", {node.name}"
    if node.bound:
        text += f", {node.bound}-bound"
    return text + (f" [{node.where}]" if node.where else "")


def _chain(chain: Chain) -> str:
    where = f" [{chain.where}]" if chain.where else ""
    kernels = " > ".join(chain.kernels)
    return f"  {chain.count} x {kernels}: {_ms(chain.total)}, up to {_ms(chain.saving)} less as one kernel{where}"


def _ms(us: float) -> str:
    return f"{us / 1000:.3f} ms"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _optional(share: float | None) -> str:
    return "-" if share is None else _percent(share)
