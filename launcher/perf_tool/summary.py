"""Figures of a trace: what the host and the engines spent, what idled, and which of the two holds up the other.

Time while the host compiles is a matter of the first steps and is reported by itself: the steady time, from the first
kernel to the end of the last one, is without the moments in which the card idles because a graph is being compiled. The
run is bound by the host where the host has more work than the card has, compiling left out, for then the card waits for
it; otherwise by the HPU. Host work counts also where it was done while a graph was being compiled and the card had to
idle anyway: without the compilation it would have taken its time. Of a pipeline of two stages the one with more work is
the bottleneck, and where they do not overlap (a value is read at every step) it is the one whose speed-up gains most.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .intervals import NONE, Intervals, bridged, complement, intersection, length, union
from .tracks import ENGINES, Chain, Node, Track, Tracks, nodes_of

GRAPH_BUILD = ("graph build", "hpu_lazy")
COMPILE = ("compile", "add_new_recipe")
LAUNCH = ("launch", "graph replay", "LaunchSyncTensorsGraph")
EAGER = ("eager operator", "LaunchRecipeTask")
STAGING = ("stage copy",)
USER = ("user code",)
WAITS = re.compile(r"wait|synchronize|collective|^ProfilerStep|^PyTorch Profiler", re.IGNORECASE)
_DATA_LOADER = re.compile(r"dataloader", re.IGNORECASE)

LOWER_PRECISION = ("bf16", "bfloat16", "f16", "fp16", "float16", "half", "f8", "fp8", "float8")

CHANGE_US = 10.0
"""Pauses of the engines up to this, in us, are the card's own: it changes from one recipe to the next (`recipe_s` in
the card files). They count as work."""

NODES_WITHOUT_HOST_BOUND = 0.5
"""Idle share above which a trace without host events is called bound by the host."""


@dataclass(frozen=True)
class Summary:
    """Figures of one trace; times in us.

    `span`: from the first kernel's start to the end of the last. `input_time`: staging on the host and copies to the
    card in that time, so without the model's. `host_work`: in that time; `host_busy`: in the steady time. `engines`:
    busy time of each, `steady_engines`: in the steady time.
    """

    span: float
    steady: float
    graph_build: float
    data_loader: float
    input_time: float
    compile_time: float
    launch: float
    eager: float
    host_work: float
    host_busy: float
    device_busy: float
    engines: dict[str, float]
    steady_engines: dict[str, float]
    idle: float
    idle_with_host: float
    overlap: float | None
    lower_precision: float | None
    exposed_network: float
    has_kernels: bool
    has_host: bool
    nodes: list[Node]
    chains: list[Chain]

    @property
    def bound(self) -> str:
        """What holds up the other: `host-bound`, `HPU-bound`, or `none` where the card computed nothing."""
        if not self.has_kernels:
            return "none"
        return "host-bound" if self.host_bound else "HPU-bound"

    @property
    def host_bound(self) -> bool:
        """Whether the host holds up the card."""
        if not self.has_host:
            return self.share(self.idle) > NODES_WITHOUT_HOST_BOUND
        return self.host_work > self.device_busy

    def share(self, part: float) -> float:
        """Share of the steady time."""
        return part / self.steady if self.steady > 0 else 0.0


def summarize(tracks: Tracks) -> Summary | None:
    """The figures; None where the trace has no events of a device."""
    engines = tracks.engines()
    if not any(engines.values()):
        return None
    host = tracks.host()
    busy = {engine: union([track.busy() for track in engines[engine]]) for engine in ENGINES}
    device = bridged(union(busy.values()), CHANGE_US)
    if not len(device):  # nothing took any time
        return None
    # Copies of the model to the card before the first kernel are no step.
    kernels = union([busy[engine] for engine in ENGINES if engine != "DMA"])
    kernels = kernels if len(kernels) else device
    begin, end = float(kernels[0, 0]), float(kernels[-1, 1])
    running = complement(NONE, begin, end)
    copies = union([track.copying_in() for track in engines["DMA"]])
    compiling = _first(host, COMPILE)
    work = _work(host)
    eager = _first(host, EAGER)
    launches = union(host.get(name, NONE) for name in LAUNCH[:2])
    launches = launches if len(launches) else _first(host, LAUNCH[2:])
    idle = complement(device, begin, end)
    idle_compiling = intersection(idle, compiling)
    steady = complement(idle_compiling, begin, end)
    steady_idle = intersection(idle, steady)
    nodes = sorted(nodes_of(track for found in engines.values() for track in found), key=_by_total)
    mme, tpc = length(busy["MME"]), length(busy["TPC"])
    compute = union([busy["MME"], busy["TPC"], busy["DMA"]])
    return Summary(
        span=end - begin,
        steady=length(steady),
        graph_build=length(_first(host, GRAPH_BUILD)),
        data_loader=length(union(rows for name, rows in host.items() if _DATA_LOADER.search(name))),
        input_time=length(intersection(_first(host, STAGING), running)) + length(intersection(copies, running)),
        compile_time=length(compiling),
        # A function of the bridge within an eager operator is named launch too.
        launch=length(union([launches, eager])) - length(eager),
        eager=length(eager),
        host_work=length(intersection(work, running)),
        host_busy=length(intersection(work, steady)),
        device_busy=length(intersection(device, steady)),
        engines={engine: length(busy[engine]) for engine in ENGINES},
        steady_engines={engine: length(intersection(busy[engine], steady)) for engine in ENGINES},
        idle=length(steady_idle),
        idle_with_host=length(intersection(steady_idle, work)),
        overlap=length(intersection(busy["MME"], busy["TPC"])) / min(mme, tpc) if mme and tpc else None,
        lower_precision=_lower_precision(nodes),
        exposed_network=length(busy["NIC"]) - length(intersection(busy["NIC"], compute)),
        has_kernels=any(length(busy[engine]) for engine in ENGINES if engine != "DMA"),
        has_host=bool(length(work)),
        nodes=nodes,
        chains=_chains(engines["TPC"]),
    )


def _first(host: Mapping[str, Intervals], names: Iterable[str]) -> Intervals:
    """What the first of the names in the trace covers: the later ones are drawn around the same time."""
    return next((host[name] for name in names if name in host), NONE)


def _work(host: Mapping[str, Intervals]) -> Intervals:
    """When the host works, compiling left out. Where it has none of our names: all of its events but waits."""
    known = (*GRAPH_BUILD, *LAUNCH, *EAGER, *STAGING, *USER, "poll")
    if any(name in host for name in known):
        return union(host[name] for name in known if name in host)
    return union(rows for name, rows in host.items() if name not in COMPILE and not WAITS.search(name))


def _lower_precision(nodes: list[Node]) -> float | None:
    """Share of the MME's time with types of 16 bits and less."""
    typed = [node for node in nodes if node.engine == "MME" and node.dtype]
    total = sum(node.total for node in typed)
    lower = sum(node.total for node in typed if node.dtype.lower().startswith(LOWER_PRECISION))
    return lower / total if total else None


def _chains(tracks: list[Track]) -> list[Chain]:
    together: dict[tuple[str, ...], Chain] = {}
    for track in tracks:
        for kernels, chain in track.chains.items():
            into = together.setdefault(kernels, Chain(kernels, chain.where))
            into.count += chain.count
            into.total += chain.total
            into.saving += chain.saving
    return sorted(together.values(), key=lambda chain: (-round(chain.saving, 6), chain.kernels))


def _by_total(node: Node) -> tuple[float, str, str]:
    return (-round(node.total, 6), node.kernel, node.name)
