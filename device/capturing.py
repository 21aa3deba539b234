"""The capture of an HPU graph that is under way on a card, and what cannot be part of one."""

from __future__ import annotations

from typing import NoReturn

from .backend.operators import runs_on_host, shape_depends_on_data
from .captured_graph import CapturedGraph
from .errors import HpuError
from .graph.location import locate

_READ = "compute with tensors only (torch.where in place of if), or read the value after the capture"
_FALLBACK = "use an operator that it has, or keep this one between two graphs"
_SHAPE = "use a form of fixed shape, such as torch.where(mask, x, 0) for x[mask], or keep it between two graphs"
_COLLECTIVE = (
    "set PT_HPU_ENABLE_LAZY_COLLECTIVES=1 to have collectives recorded, or capture what comes before and after it as "
    "graphs of their own"
)


class Capturing:
    """At most one capture at a time; one that meets what it cannot hold is given up, and says so when it is to end."""

    def __init__(self) -> None:
        self.graph: CapturedGraph | None = None
        self._why_given_up = ""
        self._suspect = ""

    def begin(self, dry_run: bool) -> None:
        """Raises HpuError: a capture is under way."""
        self.refuse_second()
        self.graph = CapturedGraph(dry_run)
        self._why_given_up = self._suspect = ""

    def refuse_second(self) -> None:
        """Raises HpuError: a capture is under way."""
        if self.graph is not None:
            raise HpuError(
                "a capture of an HPU graph is under way, and a second one cannot begin inside it; end it with "
                "capture_end() first, and wrap either a module or its submodules, not both"
            )

    def end(self) -> CapturedGraph:
        """What was captured.

        Raises:
            HpuError: no capture is under way; if one was given up, why.
        """
        graph = self.current()
        self.graph = None
        return graph

    def current(self) -> CapturedGraph:
        """The same, and the capture goes on."""
        if self.graph is None:
            why = f": {self._why_given_up}" if self._why_given_up else "; call capture_begin() first"
            raise HpuError(f"no capture of an HPU graph is under way{why}")
        return self.graph

    def give_up(self, why: str = "") -> None:
        """The capture will not be whole."""
        if self.graph is not None:
            self.graph, self._why_given_up = None, why

    def refuse(self, what: str, remedy: str, detail: str = "") -> NoReturn:
        """Something cannot be captured: the capture ends, the card goes on."""
        where = locate()
        message = (
            f"{what} is not supported during hpu graph capturing{f': {detail}' if detail else ''}"
            f"{f' ({where})' if where else ''}; {remedy}. The capture has ended"
        )
        self.give_up(message)
        raise HpuError(message)

    def refuse_read(self, reason: str) -> NoReturn:
        """The host needs a value: `reason` is "item" or "device to host copy"."""
        if reason == "item":
            self.refuse("reading a value on the host (item(), bool(), float(), print)", _READ)
        self.refuse("a copy to the host (cpu(), numpy(), print)", _READ)

    def refuse_operator(self, operator: str) -> None:
        """`operator` ("aten::name") is about to run outside a graph.

        One that is not known to give a shape that depends on data may have refused its operands: that error is the
        user's to see. If it runs after all, `refuse_suspect` says what this would have said.
        """
        if runs_on_host(operator):
            self.refuse("cpu fallback", _FALLBACK, f"the card has no {operator}")
        if shape_depends_on_data(operator):
            self.refuse(f"{operator}, whose result's shape depends on data,", _SHAPE)
        self._suspect = operator

    def refuse_suspect(self) -> None:
        """The operator that `refuse_operator` let pass has run: a replay would leave it out."""
        if self._suspect:
            operator, self._suspect = self._suspect, ""
            self.refuse(f"{operator}, the shape of whose result is not known before it runs,", _SHAPE)

    def refuse_collective(self, operation: str) -> NoReturn:
        """A collective is not part of the recorded graph."""
        self.refuse("collective nonSFG", _COLLECTIVE, operation)
