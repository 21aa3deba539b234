"""`hl-smi`: what it prints of an idle box and of cards in use, and its one-line answers to mistakes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collectives.roce.box import load_box
from device import strict
from device.board import BOARDS, Firmware, firmware_of, load_board
from device.card_records import FOLDER_VARIABLE
from device.description import configs_dir
from device.spec import load_card
from launcher.hl_smi import session, topology
from launcher.hl_smi.command import main

ROOT = Path(__file__).resolve().parent.parent.parent
HOLDER = ROOT / "tests" / "device" / "card_holder.py"
PROGRAM = "import sys; from launcher.hl_smi.command import main; main()"
POOL = load_card("gaudi2").hbm.pool_bytes // 2**20

Show = Callable[..., str]


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of its own: nobody holds a card, and no variable chooses one."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cards"))
    for name in (
        "HPUCLUSTER_CARD",
        "HPUCLUSTER_SOFTWARE",
        "HPUCLUSTER_FABRIC",
        "HPUCLUSTER_LINKS",
        "HPUCLUSTER_CARDS_PER_BOX",
        "HABANA_VISIBLE_DEVICES",
        "HABANA_VISIBLE_MODULES",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Show:
    """`show("-L")`: what `hl-smi -L` prints. `status` is what it must end with; then what it says on standard error."""

    # Tests change in one process what is fixed for a process that has loaded the device.
    monkeypatch.setattr(strict, "note", lambda topic, text: None)

    def run(*arguments: str, status: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["hl-smi", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert (ended.value.code or 0) == status, err
        assert not (err if status == 0 else out)
        return str(out if status == 0 else err)

    return run


@pytest.fixture
def hold() -> Iterator[Callable[..., int]]:
    """`hold("gaudi2", 5)` starts a process that holds that card; its process id. `ports`: `CardPorts` of its job."""
    started: list[subprocess.Popen[str]] = []

    def start(kind: str, module: int, **ports: object) -> int:
        command = [sys.executable, str(HOLDER), kind, str(module), *([json.dumps(ports)] if ports else [])]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]


# -- the table ------------------------------------------------------------------------------------------------------


IDLE_HEAD = """\
+-----------------------------------------------------------------------------+
| HL-SMI Version:                              hl-1.18.0-fw-53.1.1.1          |
| Driver Version:                                    1.18.0-emulated          |
|-------------------------------+----------------------+----------------------+
| AIP  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | AIP-Util  Compute M. |
|===============================+======================+======================|
|   0  HL-225              N/A  | 0000:19:00.0     N/A |                   0  |
| N/A   29C   N/A    90W / 600W |    768MiB / 98304MiB |     0%           N/A |
|-------------------------------+----------------------+----------------------+
"""
IDLE_TAIL = """\
|-------------------------------+----------------------+----------------------+
| Compute Processes:                                               AIP Memory |
|  AIP       PID   Type   Process name                             Usage      |
|=============================================================================|
"""


def test_an_idle_box(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "software_version", lambda: "1.18.0")
    text = show()
    assert text.startswith(IDLE_HEAD) and IDLE_TAIL in text
    assert text.count("HL-225") == 8
    none = [
        f"|   {index}        N/A   N/A    N/A                                      N/A        |" for index in range(8)
    ]
    assert text.splitlines()[-9:] == [*none, "+" + "=" * 77 + "+"]


@pytest.mark.parametrize("software", ["1.19.0", "1.22.1"])
@pytest.mark.parametrize("card", ["gaudi", "gaudi2", "gaudi3"])
def test_all_lines_are_equally_long(show: Show, monkeypatch: pytest.MonkeyPatch, card: str, software: str) -> None:
    monkeypatch.setenv("HPUCLUSTER_CARD", card)
    monkeypatch.setenv("HPUCLUSTER_SOFTWARE", software)
    assert {len(line) for line in show().splitlines()} == {79}


def test_from_release_1_20_on_the_table_tells_the_network_driver(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPUCLUSTER_SOFTWARE", "1.20.0")
    lines = show().splitlines()
    assert lines[3] == "| Nic Driver Version:                                1.20.0-emulated          |"
    assert lines[9] == "| N/A   29C   N/A  90W /  600W  |   768MiB /  98304MiB |     0%            1% |"


@pytest.mark.parametrize(
    ("card", "product", "used", "total"),
    [("gaudi", "HL-205", 512, 32768), ("gaudi2", "HL-225", 768, 98304), ("gaudi3", "HL-325L", 672, 131072)],
)
def test_the_idle_box_is_of_the_chosen_kind(
    show: Show, monkeypatch: pytest.MonkeyPatch, card: str, product: str, used: int, total: int
) -> None:
    monkeypatch.setenv("HPUCLUSTER_CARD", card)
    text = show()
    assert text.count(product) == 8 and text.count(f"{used}MiB / {total}MiB") == 8


def test_a_card_in_use(show: Show, hold: Callable[[str, int], int]) -> None:
    pid = hold("gaudi2", 2)
    text = show()
    # 2 s, MME busy for 0.5 s, TPCs for 0.25 s: 90 W + 510 W x (0.55 x 0.25 + 0.25 x 0.125) = 176 W, 29 C + 46 C x 0.169
    assert f"| N/A   37C   N/A   176W / 600W |{768 + POOL:>7}MiB / 98304MiB |    25%           N/A |" in text
    name = f"{Path(sys.executable).name} card_holder.py"
    assert f"|   2{pid:>11}    C     {name:<40} 3072MiB    |" in text
    assert text.count("N/A   N/A    N/A") == 7


def test_two_processes_on_one_card_are_both_shown(show: Show, hold: Callable[[str, int], int]) -> None:
    pids = [hold("gaudi2", 5), hold("gaudi2", 5)]
    text = show()
    assert all(re.search(rf"^\|   5 +{pid} ", text, re.MULTILINE) for pid in pids)
    assert "98304MiB / 98304MiB |    50%" in text, "utilization adds up; memory as far as the card has any"


def test_only_boxes_in_use_are_shown_and_the_chosen_kind_comes_first(
    show: Show, hold: Callable[[str, int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    hold("gaudi3", 1)
    fields = ("-Q", "index,module_id,name,bus_id,memory.used", "-f", "csv,noheader,nounits")
    shown = rows(show(*fields))
    assert [row[2] for row in shown] == ["HL-325L"] * 8
    assert [int(row[4]) > 100000 for row in shown] == [False, True, *[False] * 6]
    monkeypatch.setenv("HPUCLUSTER_CARD", "gaudi2")
    shown = rows(show(*fields))
    assert [row[2] for row in shown] == ["HL-225"] * 8 + ["HL-325L"] * 8
    assert [row[0] for row in shown] == [str(index) for index in range(16)]
    assert len({row[3] for row in shown}) == 16
    assert shown[8][3] == "0001:19:00.0"


def test_visible_devices_limit_what_a_container_shows(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_VISIBLE_MODULES", "7")  # between an application and its libraries
    monkeypatch.setenv("HABANA_VISIBLE_DEVICES", "2,5")
    assert rows(show("-Q", "index,module_id", "-f", "csv,noheader")) == [["2", "2"], ["5", "5"]]


# -- machine interfaces ---------------------------------------------------------------------------------------------


def test_fields_with_header_and_units(show: Show) -> None:
    first, second, *others = show("-Q", "index,name,memory.total,temperature.aip", "-f", "csv").splitlines()
    assert first == "index, name, memory.total [MiB], temperature.aip [C]"
    assert second == "0, HL-225, 98304 MiB, 29 C"
    assert len(others) == 7


def test_fields_without_header_and_units(show: Show) -> None:
    text = show("--query-aip=Name,power.draw,power.max,utilization.aip", "--format=csv,noheader,nounits")
    assert text.splitlines() == ["HL-225, 90, 600, 0"] * 8


def test_memory_that_tensors_hold_is_a_field_of_its_own(show: Show, hold: Callable[[str, int], int]) -> None:
    hold("gaudi2", 0)
    fields = "memory.used,memory.free,memory.allocated,memory.peak"
    first = rows(show("-Q", fields, "-f", "csv,noheader,nounits"))[0]
    assert first == [str(768 + POOL), str(98304 - 768 - POOL), "3072", "5120"]


def test_every_field_has_a_value(show: Show) -> None:
    message = show("-Q", "all", status=2)
    names = message.partition("choose from ")[2].strip().replace(" ", "")
    assert {"timestamp", "bus_id", "nic_driver_version", "ecc.mode.current", "clocks.limit.tpc"} <= set(
        names.split(",")
    )
    for row in rows(show("-Q", names, "-f", "csv,noheader")):
        assert len(row) == len(names.split(",")) and all(row)


def test_cards_are_counted_by_lines(show: Show) -> None:
    assert show("-Q", "module_id", "-f", "csv,noheader").splitlines() == [str(module) for module in range(8)]


def test_a_health_check_s_query(show: Show) -> None:
    """As optimum-habana's: index, module, address, memory in use, temperature, name; figures in front of units."""
    text = show("-Q", "index,module_id,bus_id,memory.used,temperature.aip,name", "-f", "csv,noheader")
    for index, row in enumerate(rows(text)):
        assert row[0] == row[1] == str(index)
        assert re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0", row[2])
        assert (int(row[3].split()[0]), int(row[4].split()[0]), row[5]) == (768, 29, "HL-225")


def test_the_driver_s_version_stands_in_the_third_line(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where optimum-habana takes it from: behind the colon, before the first dash."""
    monkeypatch.setenv("HPUCLUSTER_SOFTWARE", "1.21.0")
    line = show().split("\n")[2].replace(" ", "")
    assert line.split(":")[1][:-1].split("-")[0] == "1.21.0"


def test_the_version_line(show: Show) -> None:
    """lightning-habana looks for `hl-` and `fw-`, habana_frameworks for "Habana"."""
    (line,) = show("-v").splitlines()
    assert line.startswith("Habanalabs hl-smi/hlml version hl-1.19.0-fw-57.2.4.0 (")
    found = re.search(r"hl-([\d\.]+)", line), re.search(r"fw-([\d\.]+)", line)
    assert [match.group(1) for match in found if match] == ["1.19.0", "57.2.4.0"]


def test_firmware_can_be_read_from_the_list(show: Show) -> None:
    text = show("-L")
    found = re.findall(r"Firmware \[SPI\] Version +: Preboot version hl-gaudi2-([\d.]+)-fw-([\d.]+)-sec-\d+ ", text)
    assert found == [("1.19.0", "57.2.4")] * 8


@pytest.mark.parametrize(
    ("software", "release", "firmware"),
    [("1.15.1", "1.15.1", "49.0.0.0"), ("1.13", "1.13.0", "46.0.5.0"), ("1.99.1", "1.99.1", "62.2.1.1")],
)
def test_firmware_of_a_release(software: str, release: str, firmware: str) -> None:
    assert firmware_of(software) == Firmware(release, firmware)


# -- details --------------------------------------------------------------------------------------------------------


def test_the_list_tells_all_of_each_card(show: Show) -> None:
    text = show("-L", "-i", "0000:43:00.0")
    for line in (
        "Attached AIPs                           : 8",
        "[2] AIP (accel2) 0000:43:00.0",
        "        Product Name                    : HL-225",
        "        Module status                   : Operational",
        "        Module ID                       : 2",
        "                Device Id               : 0x1da31020",
        "                Bus Id                  : 0000:43:00.0",
        "                                Max     : 16GT/s",
        "                Total                   : 98304 MB",
        "                Used                    : 768 MB",
        "                Power Limit             : 600 W",
        "                [1] soc                 : 1800 MHz",
        "                Double Bit ECC          : 0",
    ):
        assert line in text.splitlines()
    assert text.count("Product Name") == 1
    for word in ("Model Number", "Serial Number", "PCB", "AIP UUID", "AIP Status", "[FIT]", "[UBOOT]", "[OS]", "CPLD"):
        assert word in text
    assert len(re.findall(r"MAC +: 02(:[0-9a-f]{2}){5}$", text, re.MULTILINE)) == 24


def test_a_display_chooses_a_section(show: Show) -> None:
    text = show("-q", "-d", "power,FAN", "-i", "1")
    assert "Power Limit" in text and "Fan Speed" in text and "Memory Usage" not in text


def test_the_log_tells_the_processes(show: Show, hold: Callable[[str, int], int]) -> None:
    pid = hold("gaudi2", 4)
    text = show("-q", "-d", "PROCESSES", "-i", "4")
    assert re.search(rf"Process ID +: {pid}$", text, re.MULTILINE)
    assert re.search(r"Allocated +: 3072 MB$", text, re.MULTILINE)
    assert re.search(r"Modelled Time +: 2\.000000 s$", text, re.MULTILINE)


def test_firmware_versions(show: Show) -> None:
    assert show("--fw-versions").count("[SPI]") == 8 * show("--fw-version", "-i", "0").count("[SPI]") == 8


# -- ports and topology ---------------------------------------------------------------------------------------------


def ports_by_card(text: str, word: str) -> list[list[int]]:
    """Of each card the ports of which `hl-smi -n` says this."""
    cards = re.split(r"^\[\d+\] AIP .*\n", text, flags=re.MULTILINE)[1:]
    return [[int(port) for port in re.findall(rf"^port +(\d+):\t{word}$", card, re.MULTILINE)] for card in cards]


def test_ports_of_a_card(show: Show) -> None:
    lines = show("-n", "ports", "-i", "0").splitlines()
    assert len(lines) == 24 and lines[0] == "port  0:\tinternal"
    assert [line for line in lines if "external" in line] == [f"port {port:>2}:\texternal" for port in (8, 22, 23)]


@pytest.mark.parametrize("kind", ["gaudi", "gaudi2", "gaudi3"])
def test_each_card_has_the_ports_of_its_box_s_file(show: Show, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("HPUCLUSTER_CARD", kind)
    box = load_box(load_card(kind).box)
    text = show("-n", "ports")
    assert ports_by_card(text, "external") == [list(ports) for ports in box.scale_out]
    inside = [[port for port in range(box.ports_per_card) if port not in ports] for ports in box.scale_out]
    assert ports_by_card(text, "internal") == inside
    assert ports_by_card(show("-n", "link"), "UP") == inside
    assert len(re.findall(" MAC ", show("-q", "-d", "NET", "-i", "1"))) == box.ports_per_card


def test_in_two_hls1h_all_ports_leave_the_box(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPUCLUSTER_CARD", "gaudi")
    monkeypatch.setenv("HPUCLUSTER_FABRIC", "hls1h")
    monkeypatch.setenv("HPUCLUSTER_LINKS", "1.3:4=down")
    assert ports_by_card(show("-n", "ports"), "external") == [list(range(10))] * 8
    every = ",".join(str(port) for port in range(10))
    assert ports_by_card(show("-n", "link", "-P", every), "DOWN") == [[]] * 7 + [[4]]


# -- states of links ------------------------------------------------------------------------------------------------

ALL_PORTS = ",".join(str(port) for port in range(24))
NONE: list[list[int]] = [[]] * 8


def test_a_link_that_the_environment_says_is_down(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    # 0:0 and 3:0 are two ends of one cable; 9.0 is a card of another box, and half a rate is not nothing.
    monkeypatch.setenv("HPUCLUSTER_LINKS", "0:0=down, *:22=down, 5:22=up, 1:8=0.5, 9.0:8=down")
    down = ports_by_card(show("-n", "link", "-P", ALL_PORTS), "DOWN")
    assert down == [[0, 22], [22], [22], [0, 22], [22], [], [22], [22]]
    assert ports_by_card(show("-n", "link"), "DOWN") == [[0], [], [], [0], [], [], [], []]


def test_a_link_that_the_fabric_file_says_is_down(show: Show, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (configs_dir() / "fabrics" / "one-box.toml").read_text()
    (tmp_path / "own.toml").write_text(re.sub("^links = .*", 'links = ["0.2:23=down"]', text, flags=re.MULTILINE))
    monkeypatch.setenv("HPUCLUSTER_FABRIC", str(tmp_path / "own.toml"))
    assert ports_by_card(show("-n", "link", "-P", ALL_PORTS), "DOWN") == [[], [], [23], [], [], [], [], []]


def test_a_held_card_s_ports_are_those_of_its_job(
    show: Show, hold: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPUCLUSTER_LINKS", "*:8=down")
    hold("gaudi2", 5, count=24, external=[7, 8], down=[3, 7])
    hold("gaudi2", 6)  # a process without a process group
    down = ports_by_card(show("-n", "link", "-P", ALL_PORTS), "DOWN")
    assert down == [[8], [8], [8], [8], [8], [3, 7], [8], [8]]
    assert ports_by_card(show("-n", "ports"), "external")[4:6] == [[8, 22, 23], [7, 8]]


def test_states_are_of_the_reader_s_kind_of_card(
    show: Show, hold: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPUCLUSTER_LINKS", "*:23=down")  # a Gaudi has ports 0 to 9
    hold("gaudi", 0)
    assert ports_by_card(show("-n", "link", "-P", "0,9"), "DOWN") == NONE
    assert ports_by_card(show("-n", "ports"), "external") == [[1, 8, 9]] * 8


def test_links_that_cannot_be_read_are_named(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPUCLUSTER_LINKS", "0:24=down")
    assert "port 24, and there are 24" in show("-n", "link", status=2)
    assert show("-Q", "index", "-f", "csv,noheader") == "".join(f"{index}\n" for index in range(8))


def test_links_are_those_in_the_box_unless_ports_are_named(show: Show) -> None:
    assert len(show("-n", "link", "-i", "0").splitlines()) == 21
    assert show("-n", "link", "-i", "19:00.0", "-P", "8,22").splitlines() == ["port  8:\tUP", "port 22:\tUP"]


def test_port_counters(show: Show) -> None:
    assert show("-n", "stats", "-i", "0", "-P", "3").splitlines()[:2] == ["port 3:", "   pcs_local_faults: 0"]


def test_ports_of_all_cards(show: Show) -> None:
    lines = show("-n", "link").splitlines()
    assert lines[0] == "[0] AIP (accel0) 0000:19:00.0" and len(lines) == 8 * 22


def test_every_box_has_a_board() -> None:
    assert {file.stem for file in (configs_dir() / "boxes").glob("*.toml")} == set(BOARDS)
    for name, board in BOARDS.items():
        assert load_board(name).name == board
        assert load_board(name).chip == load_box(name).card == load_box(board).card
        assert len(load_board(name).pci.addresses) >= load_box(name).cards


def test_topology(show: Show, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for node, processors in enumerate(("0-39,80-119", "40-79,120-159")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(processors + "\n")
    monkeypatch.setattr(topology, "NODES", tmp_path)
    lines = show("topo", "-c", "-N").splitlines()
    assert lines[0].split() == ["modID", "CPU", "Affinity", "NUMA", "Affinity"]
    assert lines[2].split() == ["0", "0-39,", "80-119", "0"]
    assert lines[9].split() == ["7", "40-79,", "120-159", "1"]
    assert [line.split() for line in show("topo", "-N").splitlines()[2:4]] == [["0", "0"], ["1", "0"]]


# -- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (("-Q", "index,temperature"), ("'temperature'", "temperature.aip", "memory.used")),
        (("-Q", "index", "-f", "json"), ("json", "csv", "noheader", "nounits")),
        (("-Q", "index", "-f", "noheader"), ("noheader", "csv")),
        (("-f", "csv"), ("-Q",)),
        (("-i", "9"), ("9", "0 (0000:19:00.0)", "7 (0000:cd:00.0)")),
        (("-L", "-i", "0000:99:00.0"), ("0000:99:00.0", "0000:1a:00.0")),
        (("-l", "0"), ("0", "0.1", "5")),
        (("-l", "soon"), ("soon",)),
        (("-q", "-d", "SPEED"), ("'SPEED'", "PRODUCT", "ROW_REPLACEMENT")),
        (("-d", "POWER"), ("-q",)),
        (("-n", "cables"), ("cables", "ports")),
        (("-n", "link", "-P", "99"), ("99", "0 to 23")),
        (("-n", "link", "-P", "a"), ("'a'", "0,1,8")),
        (("-P", "1"), ("-n",)),
        (("-r",), ("no reset",)),
        (("-p", "400"), ("400", "600 W", "limit_w")),
        (("--colour",), ("--colour", "hl-smi --help")),
        (("top",), ("top", "hl-smi --help")),
    ],
)
def test_a_mistake_gets_one_line(show: Show, arguments: tuple[str, ...], texts: tuple[str, ...]) -> None:
    (line,) = show(*arguments, status=2).splitlines()
    assert line.startswith("hl-smi: ")
    for text in texts:
        assert text in line


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HPUCLUSTER_CARD", "gaudi9"),
        ("HPUCLUSTER_SOFTWARE", "new"),
        ("HABANA_VISIBLE_DEVICES", "0,9"),
        ("HABANA_VISIBLE_DEVICES", "none"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(
    show: Show, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    (line,) = show(status=2).splitlines()
    assert line.startswith("hl-smi: ") and value in line


def test_help_names_every_option(show: Show) -> None:
    text = show("-h")
    for option in (
        "-v, --version",
        "-L, --list-aips",
        "-q, --query",
        "-d, --display",
        "-Q, --query-aip",
        "-f, --format",
        "-i, --device",
        "-l, --loop",
        "-n, --nic",
        "-P, --ports",
        "--fw-versions",
        "-r, --reset-aip",
        "-p, --power-max",
        "-D, --debug",
        "topo",
        "HPUCLUSTER_SOFTWARE",
    ):
        assert option in text


# -- as a program ---------------------------------------------------------------------------------------------------


def start(*arguments: str, **options: object) -> subprocess.Popen[str]:
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-c", PROGRAM, *arguments],
        text=True,
        env=environ,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options,
    )


def test_it_repeats_until_interrupted() -> None:
    with start("-Q", "index", "-f", "csv", "-i", "0", "-l", "0.1") as program:
        assert program.stdout is not None
        assert [program.stdout.readline() for _ in range(4)] == ["index\n", "0\n"] * 2
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=20)
    assert (program.returncode, errors.strip()) == (130, "")


def test_it_ends_quietly_when_nobody_reads_on() -> None:
    with start("-l", "0.1") as program:
        assert program.stdout is not None and program.stderr is not None
        program.stdout.readline()
        program.stdout.close()
        errors = program.stderr.read()
        program.wait(20)
    assert (program.returncode, errors) == (0, "")


def test_a_full_disk_gets_one_line() -> None:
    with open("/dev/full", "w") as full:
        process = start("-l", "1", stdout=full)
    _, complaint = process.communicate(timeout=20)
    assert process.returncode == 2
    assert complaint.startswith("hl-smi: standard output cannot be written: ") and complaint.count("\n") == 1


def test_it_loads_neither_torch_nor_ray() -> None:
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); " + PROGRAM
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=True)
    assert not {"torch", "ray", "numpy"} & set(done.stdout.splitlines()[-1].split())


def test_a_user_s_modules_of_our_names_are_not_taken_for_ours(tmp_path: Path) -> None:
    for name in ("device", "hpucluster", "collectives"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not ours')\n")
    environ = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run([sys.executable, "-c", PROGRAM, "-v"], capture_output=True, text=True, env=environ)
    assert done.returncode == 0 and done.stdout.startswith("Habanalabs"), done.stderr
