"""The recipes of one card: found in memory, on disk or in a bucket of dynamic shapes, or compiled, and why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from .buckets import Admission, Buckets, dynamic_shapes
from .compiler.compile import compile_graph, eager_program, place
from .compiler.graph_def import write_if_wanted
from .compiler.program import Access, Engine, EngineNode, Program, ProgramBuffer
from .compiler.recipe import Recipe
from .compiler.visualization import FOLDER, GraphDumps
from .environment import Settings
from .events import EventId, dispatcher
from .executor import EagerKernel, LoadedRecipe
from .graph.causes import FIRST, Cause, explain
from .graph.ir import Graph, graph_of
from .graph.location import locate
from .journal import Compilation, Journal
from .recipe_cache import RecipeCache
from .recipe_store import open_store
from .run_log import RunLog
from .spec import CardSpec
from .timeline import Timeline


@dataclass(frozen=True)
class Origin:
    """Where a graph comes from if not from lazy mode.

    `name`: what compiled it. `dynamic`: whether its recipe is for a range of shapes; None: as `enable_dynamic_shape` says.
    """

    name: str
    dynamic: bool | None = None


DATA_DEPENDENT = "result's shape depends on data"
REFINED = "tighter recipe of a dynamic bucket"


class Recipes:
    """What a card has compiled or loaded. Compile time goes to the timeline, compilations to the journal."""

    def __init__(
        self, spec: CardSpec, settings: Settings, bridge: Any, timeline: Timeline, journal: Journal, log: RunLog | None
    ) -> None:
        self.graphs: RecipeCache[LoadedRecipe] = RecipeCache(settings.lru_capacity)
        self.kernels: RecipeCache[EagerKernel] = RecipeCache(settings.lru_capacity)
        self.store = open_store(settings.recipe_store, spec, settings.software)
        self._spec = spec
        self._is_lazy = settings.lazy
        self._bridge = bridge
        self._timeline = timeline
        self._journal = journal
        self._log = log
        self.buckets = Buckets(settings.bucket_policies)
        self._dumps = GraphDumps(Path(FOLDER) if settings.graph_dumps else None)
        self._by_name: WeakValueDictionary[str, Recipe] = WeakValueDictionary()  # those that a cache or a capture holds
        self._lines: dict[str, str] = {}
        self._immediate: dict[str, Recipe] = {}
        self._immediate_operators: set[str] = set()
        self._unpublished: list[Compilation] = []

    def by_name(self, name: str) -> Recipe | None:
        """The recipe or eager kernel of that name, while it is in a cache or in a captured graph."""
        return self._by_name.get(name)

    def graph_named(self, name: str) -> Graph | None:
        """The graph behind the recipe or eager kernel of that name, while it is in a cache."""
        for loaded in self.graphs:
            if loaded.recipe.name == name:
                return loaded.graph
        return next((kernel.graph for kernel in self.kernels if kernel.name == name), None)

    # -- graphs ---------------------------------------------------------------------------------------------------

    def has_graph(self, signature: str) -> bool:
        """Whether the recipe of that graph is in memory."""
        return signature in self.graphs

    def of_graph(self, recording: Any, origin: Origin | None = None) -> tuple[LoadedRecipe, EventId]:
        """The recipe that runs a recorded graph, and whether it was there (CACHE_HIT) or had to be compiled."""
        signature = recording.signature
        loaded = self.graphs.get(signature)
        if loaded is not None:
            return loaded, EventId.CACHE_HIT
        graph = graph_of(recording, self._lines)
        is_dynamic = dynamic_shapes.on if origin is None or origin.dynamic is None else origin.dynamic
        admission = self.buckets.admit(graph) if is_dynamic else None
        in_bucket = admission is not None and not admission.compile
        recipe = None if in_bucket or self.store is None else self.store.get(signature)
        event = EventId.CACHE_HIT
        if recipe is None:
            recipe = compile_graph(graph, self._spec)
            self._dumps.write(recipe, graph)
            write_if_wanted(graph, recipe.name, self._is_lazy, compiled=True)
            if not in_bucket:
                event = EventId.CACHE_MISS
                cause = explain(graph, [entry.graph for entry in self.graphs])
                self._compiled(recipe, cause if origin is None else cause.seen_by(origin.name), len(graph.nodes))
        self._learn(recipe)
        loaded = LoadedRecipe(recipe, graph, self._bridge.Executable(recording), admission)
        recording.remember()
        self.graphs.put(signature, loaded)
        return loaded, event

    def ran(self, loaded: LoadedRecipe, admission: Admission) -> None:
        """A graph has run in its bucket; a tighter recipe that this sets off is compiled while the host goes on."""
        if self.buckets.ran(admission) is not None:
            graph = loaded.graph
            cause = Cause(REFINED, "", graph.nodes[0].where)
            self._note(f"{loaded.recipe.name}_refined", loaded.recipe.compile_seconds, cause, len(graph.nodes))

    def _compiled(self, recipe: Recipe, cause: Cause, nodes: int) -> None:
        self._timeline.compile(recipe.name, recipe.compile_seconds)
        self._note(recipe.name, recipe.compile_seconds, cause, nodes)
        if self.store is not None:
            self.store.put(recipe)

    def _note(self, name: str, seconds: float, cause: Cause, nodes: int) -> None:
        compilation = Compilation(name, seconds, cause, self._journal.steps, nodes)
        self._journal.compiled(compilation)
        self._unpublished.append(compilation)

    def _learn(self, recipe: Recipe, eager: bool = False) -> None:
        self._by_name[recipe.name] = recipe
        if self._log is not None:
            self._log.learn(recipe.name, recipe.program, eager)
        self._timeline.learn(
            recipe.name, recipe.seconds, recipe.engine_seconds, recipe.hbm_bytes(self._spec), recipe.collectives
        )

    def publish(self) -> None:
        """The launch thread has finished: compilations up to here become visible in the metrics."""
        for compilation in self._unpublished:
            dispatcher.publish(
                EventId.GRAPH_COMPILATION,
                {
                    "duration": str(round(compilation.seconds * 1e6)),
                    "recipe": f".graph_dumps/{compilation.recipe}",
                },
            )
        self._unpublished.clear()

    # -- single operators -----------------------------------------------------------------------------------------

    def of_operator(self, recording: Any) -> EagerKernel:
        """The kernel of one operator in eager mode."""
        kernel = self.kernels.get(recording.signature)
        if kernel is not None:
            return kernel
        graph = graph_of(recording, {})
        name = f"{graph.nodes[0].op}_{graph.signature[:12]}"
        recipe = place(eager_program(graph), self._spec, name, graph.signature)
        kernel = EagerKernel(recipe, graph, self._bridge.Executable(recording))
        recording.remember()
        write_if_wanted(graph, name, self._is_lazy, compiled=False)
        self._learn(recipe, eager=True)
        self._timeline.compile(name, self._spec.compile.eager_s)
        self.kernels.put(recording.signature, kernel)
        return kernel

    def of_immediate(self, operator: str, key: str, read: int, written: int) -> str:
        """Name of the recipe of an operator that ran outside a graph, of which only the traffic in bytes is known."""
        name = f"{operator}_{key[:12]}"
        if name not in self._immediate:
            recipe = self._immediate[name] = place(_single(operator, read, written), self._spec, name, key)
            self._learn(recipe)
            if self._is_lazy:
                text = DATA_DEPENDENT if operator in self._immediate_operators else FIRST
                self._immediate_operators.add(operator)
                self._timeline.compile(name, recipe.compile_seconds)
                self._note(name, recipe.compile_seconds, Cause(text, operator, locate()), 1)
        return name


def _single(operator: str, read: int, written: int) -> Program:
    kind = operator.removeprefix("aten::")
    node = EngineNode(
        Engine.TPC, kind, kind, "other", "Float", (), 0.0, (Access(0, read),), (Access(1, written),), (0,), ""
    )
    return Program((node,), (ProgramBuffer(read, True, True), ProgramBuffer(written, False, True)), 1)
