"""Fusion of elementwise kernels into one vector kernel, also with the reduction, softmax or normalization beside them.

A kernel joins the kernels that made what it reads when all of them walk through the same elements in the same order,
and when the joined kernel can stand at one place of the program without passing a kernel that it depends on or that
depends on it. Matrix products stay as they are: their epilogues are vector kernels. Kernels that only share an input
are not joined. The limits keep fusion as moderate as published steps show it (see `Limits`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

from .kernel import Draft, Kernel, Touch, without_memory
from .layout import Walk, walk
from .program import Engine

ANCHORS = ("reduction", "softmax", "normalization")


@dataclass(frozen=True)
class Limits:
    """How far fusion goes: operators and tensors of one kernel.

    A kernel of the vector engine has 16 tensor descriptors. The number of operators is assumed: published training
    steps show much traffic that is not fused, and no published trace shows longer chains.
    """

    operators: int = 8
    tensors: int = 16


@dataclass(eq=False)
class Group:
    """Kernels that become one, at place `key` of the program."""

    key: int
    members: list[int]
    exit: int  # elements that a consumer may go on with; 0 closes the group
    anchored: bool
    needs: set[Group] = field(default_factory=set)  # groups that must come before
    users: set[Group] = field(default_factory=set)  # groups that must come after
    # What it touches: how it walks there (None: in several ways), and whether it writes.
    touched: dict[int, tuple[Walk | None, bool]] = field(default_factory=dict)
    inside: Counter[int] = field(default_factory=Counter)  # kernels of the group that touch a buffer


def _touched(kernel: Kernel) -> dict[int, tuple[Walk | None, bool]]:
    result: dict[int, tuple[Walk | None, bool]] = {}
    for touches, writes in ((kernel.reads, False), (kernel.writes, True)):
        for touch in touches:
            way: Walk | None = walk(touch.window)
            if touch.buffer in result:
                known, written = result[touch.buffer]
                way, writes_too = (way if known == way else None), written or writes
                result[touch.buffer] = (way, writes_too)
            else:
                result[touch.buffer] = (way, writes)
    return result


def _joined(
    one: dict[int, tuple[Walk | None, bool]], other: dict[int, tuple[Walk | None, bool]]
) -> dict[int, tuple[Walk | None, bool]] | None:
    """Both together; None where they touch a buffer that one of them writes, and not in the same way."""
    result = dict(one)
    for buffer, (way, writes) in other.items():
        if buffer not in result:
            result[buffer] = (way, writes)
            continue
        known, written = result[buffer]
        same = known is not None and known == way
        if (written or writes) and not same:
            return None
        result[buffer] = (known if same else None, written or writes)
    return result


class _Fuser:
    def __init__(self, draft: Draft, limits: Limits) -> None:
        self.draft = draft
        self.limits = limits
        self.groups: dict[Group, None] = {}
        self.totals = Counter(
            buffer for kernel in draft.kernels for buffer in {touch.buffer for touch in kernel.touches}
        )
        self._writer: dict[int, tuple[Group, Touch]] = {}
        self._readers: dict[int, set[Group]] = defaultdict(set)

    def run(self) -> list[Group]:
        for number, kernel in enumerate(self.draft.kernels):
            self._add(number, kernel)
        return sorted(self.groups, key=lambda group: group.key)

    def _needs(self, kernel: Kernel) -> set[Group]:
        needs = {self._writer[touch.buffer][0] for touch in kernel.touches if touch.buffer in self._writer}
        for touch in kernel.writes:
            needs |= self._readers[touch.buffer]
        return needs

    def _add(self, number: int, kernel: Kernel) -> None:
        anchor = kernel.kind in ANCHORS
        fusible = kernel.engine is Engine.TPC and (kernel.is_pointwise or anchor)
        group = Group(
            number,
            [number],
            kernel.exit if fusible else 0,
            anchor,
            self._needs(kernel),
            touched=_touched(kernel),
            inside=Counter({touch.buffer for touch in kernel.touches}),
        )
        if fusible and kernel.entry > 0:
            for producer in self._producers(kernel, anchor):
                merged = self._merge(producer, group)
                if merged is not None:
                    group = merged
        self._settle(group, kernel)

    def _producers(self, kernel: Kernel, anchor: bool) -> list[Group]:
        """Groups that end with what the kernel reads, in the order of its operands."""
        found: dict[Group, None] = {}
        for touch in kernel.reads:
            if touch.buffer not in self._writer:
                continue
            group, written = self._writer[touch.buffer]
            if group.exit == kernel.entry and walk(written.window) == walk(touch.window):
                found[group] = None
        return list(found)

    def _merge(self, producer: Group, group: Group) -> Group | None:
        """Both as one group, or None where that is not allowed. `group` ends with the newest kernel."""
        if producer.anchored and group.anchored:
            return None
        members = producer.members + group.members
        if len(members) > self.limits.operators:
            return None
        touched = _joined(producer.touched, group.touched)
        if touched is None:
            return None
        inside = producer.inside + group.inside
        if sum(not self.is_internal(buffer, inside) for buffer in touched) > self.limits.tensors:
            return None
        pair = {producer, group}
        needs = (producer.needs | group.needs) - pair
        users = (producer.users | group.users) - pair
        after = max((need.key for need in needs), default=-1)
        before = min((user.key for user in users), default=len(self.draft.kernels))
        newest = max(members)
        key = next((key for key in (producer.key, group.key, newest) if after < key < before), None)
        if key is None:
            return None
        merged = Group(key, members, group.exit, producer.anchored or group.anchored, needs, users, touched, inside)
        for old in pair:
            self._replace(old, merged)
        return merged

    def is_internal(self, buffer: int, inside: Counter[int]) -> bool:
        return self.draft.buffers[buffer].is_workspace and inside[buffer] == self.totals[buffer]

    def _replace(self, old: Group, new: Group) -> None:
        self.groups.pop(old, None)
        for need in new.needs:
            need.users.discard(old)
            need.users.add(new)
        for user in new.users:
            user.needs.discard(old)
            user.needs.add(new)
        for buffer in old.touched:
            if buffer in self._writer and self._writer[buffer][0] is old:
                self._writer[buffer] = (new, self._writer[buffer][1])
            if old in self._readers[buffer]:
                self._readers[buffer].discard(old)
                self._readers[buffer].add(new)

    def _settle(self, group: Group, kernel: Kernel) -> None:
        self.groups[group] = None
        for need in group.needs:
            need.users.add(group)
        for touch in kernel.reads:
            self._readers[touch.buffer].add(group)
        for touch in kernel.writes:
            self._writer[touch.buffer] = (group, touch)
            self._readers[touch.buffer].clear()


def _combined(members: list[Kernel], number: int, internal: set[int]) -> Kernel:
    """One kernel that does what its members do one after the other."""
    reads: dict[tuple[int, Walk, int], Touch] = {}
    writes: dict[tuple[int, Walk, int], Touch] = {}
    written: set[int] = set()
    for kernel in members:
        for touch in kernel.reads:
            if touch.buffer not in written:
                reads.setdefault((touch.buffer, walk(touch.window), touch.run), touch)
        for touch in kernel.writes:
            written.add(touch.buffer)
            if touch.buffer not in internal:
                writes[touch.buffer, walk(touch.window), touch.run] = touch
    leading = max(members, key=lambda kernel: kernel.kind in ANCHORS)
    main = max(members, key=lambda kernel: kernel.operations)
    largest = max(members, key=lambda kernel: max(kernel.entry, kernel.exit))
    return replace(
        leading,
        name=f"fused_kernel_{number}",
        kernel=f"fused_kernel_{number}",
        suffix=main.suffix,
        kind=leading.kind if leading.kind in ANCHORS else "elementwise",
        dtype=main.dtype,
        shape=largest.shape,
        operations=sum(kernel.operations for kernel in members),
        reads=tuple(reads.values()),
        writes=tuple(writes.values()),
        sources=tuple(sorted({source for kernel in members for source in kernel.sources})),
        where=members[-1].where,
    )


def fuse(draft: Draft, limits: Limits = Limits()) -> Draft:
    """The draft with elementwise chains joined, in an order that keeps every dependency."""
    fuser = _Fuser(draft, limits)
    kernels: list[Kernel] = []
    without: set[int] = set()
    count = 0
    for group in fuser.run():
        members = [draft.kernels[number] for number in sorted(group.members)]
        if len(members) == 1:
            kernels.append(members[0])
            continue
        internal = {buffer for buffer in group.touched if fuser.is_internal(buffer, group.inside)}
        without |= internal
        kernels.append(_combined(members, count, internal))
        count += 1
    return Draft(tuple(kernels), without_memory(draft.buffers, without), draft.operators)
