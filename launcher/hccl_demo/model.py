"""`--model`: what the fabric model says of a test, without any rank."""

from __future__ import annotations

from collections import Counter

from collectives.roce.bandwidth import network_factor
from collectives.roce.network import Group, Message, Network
from collectives.roce.place import places
from device.spec import chosen_card

from . import scale_validation
from .catalogue import ALL_GATHER, SCALE_VALIDATION, SEND_RECV, TESTS
from .pairing import partners
from .printing import Figures, bandwidth, benchmark_block, csv_row, duration, pairs_line, processing_line, summary
from .settings import Settings
from .sizes import each_size


class Model:
    """The cards of a run on their network.

    Raises:
        ConfigurationError: a card, box, fabric, algorithm or link state that cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._network = Network.of_environment(chosen_card(), settings.nranks)

    def group(self, ranks: tuple[int, ...]) -> Group:
        """These ranks as the fabric sees them."""
        where = places(ranks, {}, self._network.cards_per_box)
        return self._network.group([where[rank] for rank in ranks])

    def figures(self, size: int) -> dict[int, Figures]:
        """One iteration with `size` bytes of input, by rank that tells of it. Of send_recv, what rank 0 sees, or each
        receiver of `--ranks_list`.
        """
        settings = self._settings
        if settings.ranks_list:
            return self._messages(size)
        test, members = TESTS[settings.test], settings.members
        if settings.test == SEND_RECV:
            members = (0, partners(settings, 0)[1])
        seconds = self.group(members).seconds(test.pattern, model_bytes(settings, size))
        return {
            settings.comm_root: Figures(test.call, size, network_factor(test.pattern, len(members)), seconds, seconds)
        }

    def _messages(self, size: int) -> dict[int, Figures]:
        """Messages of `--ranks_list`, all at once. Ranks that wait for each other, over others too, keep the pace of
        the slowest message among them.
        """
        pairs, nbytes = self._settings.ranks_list, model_bytes(self._settings, size)
        where = places(range(self._settings.nranks), {}, self._network.cards_per_box)
        ends = self._network.message_ends(
            [Message(where[sender], where[receiver], nbytes) for sender, receiver in pairs]
        )
        paces = dict.fromkeys((rank for pair in pairs for rank in pair), 0.0)
        for _ in pairs:
            for (sender, receiver), end in zip(pairs, ends, strict=True):
                paces[sender] = paces[receiver] = max(end, paces[sender], paces[receiver])
        received = Counter(receiver for _, receiver in pairs)
        call = TESTS[SEND_RECV].call
        return {
            rank: Figures(f"{call}_rank_{rank}", size, float(count), paces[rank], paces[rank])
            for rank, count in sorted(received.items())
        }

    def phases(self, size: int) -> str:
        """Where the time of a collective goes: the algorithm, and a line for each phase."""
        settings = self._settings
        group = self.group(settings.members)
        lines = [f"[MODEL]     Algorithm      : {group.algorithm}\n"]
        for phase in group.explain(TESTS[settings.test].pattern, model_bytes(settings, size)):
            rounds = f", {phase.rounds} rounds" if phase.rounds > 1 else ""
            link = (
                f"; {phase.link} carries {phase.wire_bytes:.0f} bytes at {bandwidth(phase.rate_bytes_per_s)}"
                if phase.link
                else ""
            )
            lines.append(
                f"[MODEL]     {phase.name.ljust(15)}: {duration(phase.seconds)} from {duration(phase.start_s)} on"
                f"{rounds}{link}\n"
            )
        return "".join(lines)

    def scale_validation(self, size: int) -> tuple[str, bool]:
        """The test of every pair; see `all_pairs.validate`."""
        text, is_fine = "", True
        for kind, pairs, expected in scale_validation.stages(self._settings):
            rates = {pair: size / self.group(pair).seconds(TESTS[SEND_RECV].pattern, size) for pair in pairs}
            more, is_stage_fine = scale_validation.verdict(kind, pairs, rates, expected)
            text, is_fine = text + more, is_fine and is_stage_fine
        return text, is_fine


def model_bytes(settings: Settings, size: int) -> int:
    """Bytes as `FabricModel.seconds` counts them, of a test with `size` bytes of input."""
    ranks = len(settings.members)
    elements = TESTS[settings.test].input_elements(size // settings.item_bytes, ranks)
    return elements * settings.item_bytes * (ranks if settings.test == ALL_GATHER else 1)


def run(settings: Settings) -> bool:
    """Print what the ranks would. Returns whether all is well."""
    model = Model(settings)
    rows: dict[int, list[Figures]] = {}
    is_fine = True
    for size in each_size(settings.size_min, settings.size_max, settings.size_inc):
        if settings.test == SCALE_VALIDATION:
            text, is_size_fine = model.scale_validation(size)
            is_fine = is_fine and is_size_fine
            print(text, end="")
            continue
        if settings.ranks_list:
            print(pairs_line(settings), end="")
        for rank, figures in model.figures(size).items():
            rows.setdefault(rank, []).append(figures)
            print(processing_line(figures) if settings.is_range else benchmark_block(settings, figures), end="")
        if not settings.is_range and settings.test != SEND_RECV:
            print(model.phases(size), end="")
    if settings.is_range:
        print("".join(summary(settings, own) for own in rows.values()), end="")
    if settings.result_csv:
        with open(settings.result_csv, "a", encoding="ascii") as file:
            for number in range(max(map(len, rows.values()), default=0)):
                file.writelines(csv_row(settings, rank, own[number]) for rank, own in rows.items())
    return is_fine
