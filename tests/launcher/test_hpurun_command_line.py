"""`hpurun`'s options, and its one-line answers to mistakes: exit status 2, the value and the remedy named."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from launcher import session
from launcher.checks import choose_modules
from launcher.hpurun import command, main
from launcher.messages import UserError
from launcher.ports import holder

CHOICE = ("HABANA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES", "HPUCLUSTER_CARD", "HPUCLUSTER_NUMERICS")


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that would run, in the working directory, and no choice of cards in the environment."""
    for name in CHOICE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text("print('ran')\n")
    return path


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[session.Request]:
    """What the command line asks for, recorded instead of run."""
    recorded: list[session.Request] = []

    def record(request: session.Request, environ: dict[str, str], sys_path: list[str]) -> int:
        recorded.append(request)
        return 0

    monkeypatch.setattr(session, "run", record)
    return recorded


def invoke(*arguments: str, **environ: str) -> Result:
    """Run the command in this process, with its environment as the job would find it."""
    return CliRunner().invoke(command, list(arguments), env=environ)


def assert_one_line(result: Result, *texts: str) -> None:
    """The answer to a mistake: exit status 2, one line that holds all `texts`."""
    assert result.exit_code == 2, result.output
    lines = [line for line in result.output.splitlines() if line]
    assert len(lines) == 1, result.output
    assert lines[0].startswith("hpurun: ")
    for text in texts:
        assert text in lines[0]


def set_devices(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setattr("launcher.hpurun._ENVIRON", {"HABANA_VISIBLE_DEVICES": value})


@pytest.mark.parametrize(
    ("value", "named"),
    [("0,0", "0"), ("9", "9"), ("x", "x"), ("", "empty"), ("none", "none"), ("0,,1", "''"), ("-1", "-1")],
)
def test_bad_visible_devices(script: Path, monkeypatch: pytest.MonkeyPatch, value: str, named: str) -> None:
    set_devices(monkeypatch, value)
    assert_one_line(invoke(str(script)), "HABANA_VISIBLE_DEVICES", named)


def test_more_cards_than_visible(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_devices(monkeypatch, "0")
    assert_one_line(invoke("--cards", "2", str(script)), "--cards 2", "HABANA_VISIBLE_DEVICES=0", "use --cards 1")


@pytest.mark.parametrize("cards", ["9", "0", "-3"])
def test_impossible_number_of_cards(script: Path, monkeypatch: pytest.MonkeyPatch, cards: str) -> None:
    set_devices(monkeypatch, "all")
    assert_one_line(invoke("--cards", cards, str(script)), f"--cards {cards}", "or more" if cards != "9" else "8")


@pytest.mark.parametrize(
    ("devices", "cards", "modules"),
    [
        (None, None, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("all", 3, [0, 1, 2]),
        ("2,5", None, [2, 5]),
        ("5,2", None, [5, 2]),
        ("5,2", 1, [5]),
        (None, 10, [*range(8), 8, 9]),
    ],
)
def test_choice_of_modules(devices: str | None, cards: int | None, modules: list[int]) -> None:
    environ = {} if devices is None else {"HABANA_VISIBLE_DEVICES": devices}
    assert choose_modules(cards, environ) == modules


def test_visible_modules_win(script: Path) -> None:
    environ = {"HABANA_VISIBLE_DEVICES": "all", "HABANA_VISIBLE_MODULES": "4,6"}
    assert choose_modules(None, environ) == [4, 6]
    with pytest.raises(UserError, match="HABANA_VISIBLE_MODULES=4,6"):
        choose_modules(3, environ)


def test_a_box_of_fewer_cards_and_what_this_machine_can_hold(script: Path) -> None:
    assert choose_modules(6, {}, cards_per_box=4) == [0, 1, 2, 3, 8, 9]
    with pytest.raises(UserError, match=r"--cards 900: as many processes take .* or less"):
        choose_modules(900, {})


def test_unknown_card(script: Path) -> None:
    assert_one_line(invoke("--card", "gaudi9", str(script)), "--card gaudi9", "gaudi2")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PT_HPU_LAZY_MODE", "7"),
        ("HPUCLUSTER_SOFTWARE", "new"),
        ("HABANA_PGM_LRU_MAX", "x"),
        ("HABANA_PROFILE", "everything"),
        ("HABANA_PROF_CONFIG", "nowhere.json"),
        ("HABANA_PGM_LRU_MAX", "-1"),
        ("PT_HPU_MAX_COMPOUND_OP_SIZE", "-3"),
    ],
)
def test_bad_device_variables(script: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert_one_line(invoke(str(script)), name, value)


def test_missing_script(script: Path) -> None:
    assert_one_line(invoke("nowhere.py"), "nowhere.py", "no such script")


def test_directory_as_script(script: Path) -> None:
    assert_one_line(invoke(str(script.parent)), str(script.parent), "directory")


def test_no_script(script: Path) -> None:
    result = invoke("--cards", "2")
    assert result.exit_code == 2
    assert "no script" in result.output


def test_report_into_a_missing_folder(script: Path) -> None:
    assert_one_line(invoke("--report", "no/such/run.json", str(script)), "no/such/run.json", "mkdir -p")


def test_report_into_a_folder(script: Path) -> None:
    assert_one_line(invoke("--report", str(script.parent), str(script)), "--report", "directory")


def test_metrics_port_in_use(script: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        result = invoke("--metrics-port", port, str(script))
    assert_one_line(result, f"--metrics-port {port}", f"pid {os.getpid()}", "--metrics-port 0")


def test_holder_of_a_free_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert holder(port) is None


def test_syntax_error_is_printed_as_python_prints_it(script: Path) -> None:
    script.write_text("x = (\nprint(1)\n")
    python = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    result = invoke(str(script))
    assert result.exit_code == python.returncode == 1
    assert result.output == python.stderr


def test_options_end_at_the_script(script: Path, requests: list[session.Request]) -> None:
    result = invoke("--cards", "2", str(script), "--cards", "7", "--report", "x", "-m", "--", "y")
    assert result.exit_code == 0, result.output
    (request,) = requests
    assert request.cards == 2
    assert request.target == str(script) and not request.is_module
    assert request.arguments == ["--cards", "7", "--report", "x", "-m", "--", "y"]
    assert request.report is None and not request.metrics_port_chosen


def test_options_end_at_the_module(script: Path, requests: list[session.Request]) -> None:
    result = invoke("--cards", "2", "--card=gaudi3", "-m", "my.package", "--cards", "7", "--help")
    assert result.exit_code == 0, result.output
    (request,) = requests
    assert (request.target, request.is_module) == ("my.package", True)
    assert (request.cards, request.card) == (2, "gaudi3")
    assert request.arguments == ["--cards", "7", "--help"]


def test_defaults_and_choices(script: Path, requests: list[session.Request]) -> None:
    invoke(str(script))
    invoke("--metrics-port", "41611", "--numerics", "off", "--report", "r.json", str(script))
    invoke(str(script), HPUCLUSTER_CARD="gaudi", HPUCLUSTER_NUMERICS="off")
    first, second, third = requests
    assert (first.cards, first.card, first.numerics, first.metrics_port) == (None, "gaudi2", "on", 41611)
    assert not first.metrics_port_chosen and second.metrics_port_chosen
    assert (second.numerics, second.report) == ("off", "r.json")
    assert (third.card, third.numerics) == ("gaudi", "off")


@pytest.mark.parametrize(
    "arguments", [["--numerics", "maybe"], ["--cards", "two"], ["--metrics-port", "70000"], ["--nonsense"]]
)
def test_bad_options(script: Path, arguments: list[str]) -> None:
    result = invoke(*arguments, str(script))
    assert result.exit_code == 2
    assert arguments[-1] in result.output and "Traceback" not in result.output


def test_console_script_prints_mistakes_on_stderr(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["hpurun", "nowhere.py"])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert out == "" and err.startswith("hpurun: nowhere.py: no such script")


def test_interrupt_before_the_start(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "run", interrupt)
    monkeypatch.setattr(sys, "argv", ["hpurun", str(script)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 128 + signal.SIGINT


def test_help_teaches_and_is_instant() -> None:
    code = "import sys; from launcher.hpurun import command; command(['--help'], standalone_mode=False);"
    code += "assert 'ray' not in sys.modules and 'torch' not in sys.modules"
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 1.0  # whatever else runs here
    assert result.returncode == 0, result.stderr
    for text in (
        "hpurun --cards 8 train.py",
        "HABANA_VISIBLE_DEVICES=2,5 hpurun",
        "--metrics-port",
        "PT_HPU_LAZY_MODE",
        "HLS_MODULE_ID",
        "Exit status",
    ):
        assert text in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


def test_the_driver_does_not_load_torch() -> None:
    code = "import sys, launcher.session; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
