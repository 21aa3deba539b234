"""`hl-prof-config`: both spellings of its options, the file it writes, and the terminal."""

from __future__ import annotations

import errno
import json
import os
import pty
import select
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from device.errors import ConfigurationError
from device.profiler import document
from device.profiler.configuration import (
    ProfilerConfig,
    configuration_from_environment,
    load_configuration,
    save_configuration,
)
from launcher.prof_config.command import command

ROOT = Path(__file__).resolve().parents[2]
WHOLE_RUN = ProfilerConfig(phase="device-acq", invocations=None)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without settings."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def call(*arguments: str) -> Result:
    """Run the command, without a terminal."""
    return CliRunner().invoke(command, list(arguments))


def written(home: Path, *arguments: str) -> ProfilerConfig:
    """What a run with HABANA_PROFILE=1 records after the command."""
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    config = configuration_from_environment({"HABANA_PROFILE": "1", "HOME": str(home)})
    assert config is not None
    return config


def refused(*arguments: str) -> str:
    """The message that a mistake gets."""
    result = call(*arguments)
    assert result.exit_code != 0
    message = str(result.exception) if isinstance(result.exception, ConfigurationError) else result.output
    assert "Traceback" not in message
    return message


# -- what is recorded -------------------------------------------------------------------------------------------------


def test_seed_flow_records_the_whole_run_as_json(home: Path) -> None:
    result = call("-gaudi", "-e", "off", "-s", "dlrm-profile")
    path = home / ".habana" / "prof_config.json"
    assert result.output.splitlines() == ["Config file was reset to the defaults", f"Config file was edited: {path}"]
    config = configuration_from_environment({"HABANA_PROFILE": "1", "HABANA_PROF_CONFIG": str(path)})
    assert config == ProfilerConfig(session="dlrm-profile", phase="device-acq", invocations=None)


def test_without_a_file_the_whole_run_is_recorded(home: Path) -> None:
    assert configuration_from_environment({"HABANA_PROFILE": "1", "HOME": str(home)}) == WHOLE_RUN


def test_zero_is_no_profiling(home: Path) -> None:
    assert configuration_from_environment({"HABANA_PROFILE": "0", "HABANA_PROF_CONFIG": "nothing"}) is None


def test_unset_waits_for_the_script(home: Path) -> None:
    config = configuration_from_environment({})
    assert config == configuration_from_environment({"HABANA_PROFILE": "profile_api_light"})
    assert config is not None
    assert config.phase == "profileApi"


def test_template_with_a_file_on_top(home: Path) -> None:
    file = home / "mine.json"
    call("--config-filename", str(file), "-e", "off", "-s", "mine", "--phase", "profileApi")
    environ = {"HABANA_PROFILE": "profile_api_with_nics", "HABANA_PROF_CONFIG": str(file)}
    config = configuration_from_environment(environ)
    assert config == ProfilerConfig(session="mine", phase="profileApi", invocations=None)
    hltv = configuration_from_environment(environ | {"HABANA_PROFILE_WRITE_HLTV": "1"})
    assert hltv is not None
    assert hltv.formats == ("hltv", "json")


def test_unknown_template_names_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"HABANA_PROFILE='api'.*profile_api, profile_api_light"):
        configuration_from_environment({"HABANA_PROFILE": "api"})


def test_file_alone_loads_the_plugins_that_it_names(home: Path) -> None:
    file = home / "host_only.json"
    plugin = {"enable": True, "lib": "libhost_profiler.so", "name": "HostProfiler", "values": {}}
    file.write_text(json.dumps({"Plugins": [plugin]}))
    config = configuration_from_environment({"HABANA_PROF_CONFIG": str(file)})
    assert config is not None
    assert (config.host, config.hardware_trace) == (True, False)
    # With HABANA_PROFILE=1 the same file lies on top of the defaults.
    assert load_configuration(file).hardware_trace


def test_file_of_a_real_machine(home: Path) -> None:
    """As users have published theirs: units by generation, a buffer in hexadecimal bytes, no invocations."""
    on = {"enable": {"value": True}}
    hardware = {
        "archProfileUnits": {"gaudi3": {"CS": {"enable": {"value": False}}, "NIC": on | {"D0_NIC0_CS_DBG": on}}},
        "generalOptions": {
            "arch": {"value": "gaudi3"},
            "profilePhase": {"value": "profileApi"},
            "traceBufferSize": {"value": "0x10000000"},
        },
        "parseOptions": {"addFuserMetadata": {"value": True}, "traceAnalyzer": {"traceAnalyzerXlsx": {"value": True}}},
    }
    file = home / "prof_config.json"
    content = {
        "GeneralSettings": {"values": {"outdir": {"value": "./trace_results"}}},
        "Plugins": [
            {"enable": True, "lib": "libhost_profiler.so", "name": "HostProfiler",
             "values": {"start_disabled": {"value": True}, "api_group": {"HCCL": {"value": True}}}},
            {"enable": True, "lib": "libhw_trace.so", "name": "HwTrace", "values": hardware},
        ],
    }  # fmt: skip
    file.write_text(json.dumps(content))
    assert load_configuration(file) == ProfilerConfig(
        output_dir="./trace_results", phase="profileApi", invocations=None, buffer_mb=256, csv=True
    )
    assert document.nested(document.read(file)) == content


def test_saved_configuration_is_read_back(tmp_path: Path) -> None:
    config = ProfilerConfig(
        session="run#", output_dir="traces", formats=("hltv", "csv"), phase="enq", invocations=(3, 7), host=False,
        fuser=False, flow=False, engines=("MME", "TPC"), buffer_mb=64, add_pid=False, add_pci=True, csv=True,
    )  # fmt: skip
    save_configuration(config, tmp_path / "deep" / "config.json")
    assert load_configuration(tmp_path / "deep" / "config.json") == config


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        (["-phase=multi-enq"], {"phase": "multi-enq", "invocations": (0, 1)}),
        (["--phase", "multi-enq"], {"phase": "multi-enq", "invocations": (0, 1)}),
        (["-g", "1-100"], {"phase": "multi-enq", "invocations": (1, 100)}),
        (["--invocations-range", "7", "--phase", "enq"], {"phase": "enq", "invocations": (7, 7)}),
        (["-o", "traces", "-b", "256"], {"output_dir": "traces", "buffer_mb": 256}),
        (["-i", "-host=off"], {"host": False}),
        (["--hw-trace", "off"], {"hardware_trace": False}),
        (["--fuser", "off", "--flow", "off"], {"fuser": False, "flow": False}),
        (["-invoc", "csv,hltv", "-merged", "csv,hltv"], {"formats": ("hltv", "csv")}),
        (["--merged", "json", "--invoc", "hltvWithHost"], {"formats": ("hltv", "json")}),
        (["--trace-analyzer", "on"], {"csv": True}),
        (["--trace-analyzer-csv", "on"], {"csv": True}),
        (["--trace-analyzer-xlsx", "on"], {"csv": True}),
        (["--add-pid", "off", "--add-pci", "true"], {"add_pid": False, "add_pci": True}),
        (["--engines", "mme,TPC"], {"engines": ("MME", "TPC")}),
        (["-gaudi2", "--nic", "off", "-tpc0", "on"], {"engines": ("DMA", "MME", "TPC")}),
        (["-gaudi", *(f"--tpc{number}=off" for number in range(8))], {"engines": ("DMA", "MME", "NIC")}),
        (["-gaudi", "--tpc0", "off", "--mme0_acc", "on", "--nic0_1", "off"], {}),
        (["--tpc_bmon", "[[0,1][bw,lat,out][512,256][]]", "--mme_sbte_bmon", "[[][bw]]"], {}),
    ],
)
def test_options(home: Path, arguments: list[str], changes: dict[str, Any]) -> None:
    expected = {"phase": "device-acq", "invocations": None} | changes
    assert written(home, "-e", "off", *arguments) == ProfilerConfig(**expected)


def test_settings_add_up(home: Path) -> None:
    written(home, "--use-template", "profile_api_with_nics", "--trace-analyzer", "on")
    written(home, "--gaudi3")
    config = written(home, "-e", "on", "-o", "traces")
    assert config == ProfilerConfig(output_dir="traces", phase="profileApi", invocations=None, csv=True)
    assert written(home, "-e", "off") == WHOLE_RUN


def test_units_and_monitors_are_stored(home: Path) -> None:
    result = call("-gaudi", "--dma_ch3", "off", "--tpc_bmon", "[[0][bw][][]]")
    assert "an emulated card has no bus monitors" in result.output
    values = json.loads((home / ".habana" / "prof_config.json").read_text())["Plugins"][1]["values"]
    assert values["generalOptions"]["arch"] == {"value": "gaudi"}
    assert values["archProfileUnits"]["gaudi"] == {
        "DMA": {"DMA_CH3": {"enable": {"value": False}}},
        "TPC": {"BMON": {"config": {"value": "[[0][bw][][]]"}}},
    }


def test_range_tells_that_it_changes_the_phase(home: Path) -> None:
    assert "phase is multi-enq now, because device-acq takes no range" in call("-g", "0-3").output


def test_a_folder_at_home(home: Path) -> None:
    assert written(home, "-o", "~/traces").output_dir == str(home / "traces")


def test_only_files_are_replaced_and_links_stay(home: Path) -> None:
    os.mkfifo(home / "pipe")
    assert "is no file" in refused("--config-filename", str(home / "pipe"), "-e", "off")
    assert stat.S_ISFIFO((home / "pipe").stat().st_mode)
    link = home / "link.json"
    link.symlink_to(home / "shared.json")
    call("--config-filename", str(link), "-s", "mine")
    assert link.is_symlink() and load_configuration(home / "shared.json").session == "mine"
    plain = home / "plain"
    plain.touch()
    assert (home / "shared.json").stat().st_mode == plain.stat().st_mode  # others may read it as the umask says


def test_nothing_to_profile(home: Path) -> None:
    assert "nothing will be profiled" in call("--host", "off", "--hw-trace", "off").output
    with pytest.raises(ConfigurationError, match=r"nothing to profile.*HABANA_PROFILE=0"):
        configuration_from_environment({"HABANA_PROFILE": "1", "HOME": str(home)})


def test_templates(home: Path) -> None:
    lines = call("--list-templates").output.splitlines()
    assert {"profile_api", "profile_api_light", "profile_api_with_nics"} <= {line.split()[0] for line in lines}
    result = call("--use-template", "profile_api")
    assert result.output.splitlines()[0] == "Config file was reset to the template profile_api"


def test_help_names_the_units_of_a_generation() -> None:
    text = call("-h", "-gaudi").output
    assert "--invocations-range" in text
    assert "tpc0 to tpc7" in text
    assert "mme0 to mme3 (each with _acc, _sbab, _ctrl)" in text


def test_alone_without_a_terminal(home: Path) -> None:
    text = call().output
    assert text.startswith("Usage: ")
    assert "Settings (defaults)" in text
    assert not (home / ".habana").exists()


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["--phase", "run"], ["--phase run", "enq, multi-enq, device-acq, profileApi"]),
        (["-g", "5-3"], ["-g 5-3", "0-1"]),
        (["--phase", "device-acq", "-g", "1-2"], ["-g 1-2", "device-acq takes no range"]),
        (["-b", "-1"], ["-b -1", "1 to 65536"]),
        (["-b", "9999999"], ["-b 9999999", "1 to 65536"]),
        (["-s", "a/b"], ["-s a/b", "no '/'"]),
        (["-o", ""], ["-o", "use a folder"]),
        (["--host", "maybe"], ["--host maybe", "on or off"]),
        (["-e", "maybe"], ["-e maybe", "on or off"]),
        (["--merged", "xml"], ["--merged xml", "hltv, json, csv"]),
        (["--engines", "GPU"], ["--engines GPU", "DMA, MME, TPC, NIC"]),
        (["--use-template", "api"], ["'api'", "profile_api_with_nics"]),
        (["-gaudi", "-gaudi3"], ["-gaudi -gaudi3", "choose one"]),
        (["-gaudi", "--tpc9", "on"], ["--tpc9 on", "tpc0 to tpc7"]),
        (["--tpc_bmon", "[0]"], ["--tpc_bmon [0]", "[bw,lat,out]"]),
        (["--tpc_bmon", "[[0][speed]]"], ["--tpc_bmon", "bw, lat, out"]),
        (["--tpc_bmon", "[[x][bw]]"], ["--tpc_bmon", "whole numbers"]),
        (["--tpcs", "on"], ["--tpcs", "--tpc0"]),
        (["-gaudi4"], ["-gaudi4", "--gaudi3"]),
        (["--config-filename", "/proc/none/config.json"], ["/proc/none/config.json", "cannot be written"]),
    ],
)
def test_mistakes(home: Path, arguments: list[str], texts: list[str]) -> None:
    message = refused(*arguments)
    for text in texts:
        assert text in message
    assert not (home / ".habana" / "prof_config.json").exists()


def test_mistake_is_one_line_and_status_two(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "launcher.prof_config", "--use-template", "api"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("hl-prof-config: no profiler template 'api'")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("script", ["hl_prof_config", "hltv", "habana_perf_tool"])
def test_scripts_work_beside_modules_of_our_names(tmp_path: Path, script: str) -> None:
    for name in ("device", "hpucluster", "collectives"):
        (tmp_path / f"{name}.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", f"import launcher.tools; launcher.tools.{script}()", "--help"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith(f"Usage: {script.replace('hl_prof_config', 'hl-prof-config')} "), done.stderr


# -- files that cannot be used ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (None, ["cannot be read", "No such file"]),
        ("{", ["is not valid JSON", "line 1", "-e off"]),
        ("[]", ["must be an object"]),
        ('{"GeneralSettings": {"values": {"session": {"value": "a\\n"}}}}', ["session is 'a\\n'", "printable"]),
        ("[" * 100_000, ["nested too deep"]),
        ('{"a": ' + "1" * 5000 + "}", ["a number too long"]),
        ('{"Plugins": {}}', ["Plugins must be a list"]),
        ('{"Plugins": [{}]}', ["a plugin has no name", "HwTrace"]),
        ('{"GeneralSettings": {"values": {"outdir": "here"}}}', ["GeneralSettings.outdir", "{'value': ...}"]),
        ('{"GeneralSettings": {"values": {"addPid": {"value": 3}}}}', ["GeneralSettings.addPid is 3", "true or false"]),
        (
            '{"Plugins": [{"name": "HwTrace", "values": {"generalOptions": {"profilePhase": {"value": "x"}}}}]}',
            ["HwTrace.generalOptions.profilePhase is 'x'", "device-acq"],
        ),
        (
            '{"Plugins": [{"name": "HwTrace", "values": {"generalOptions": {"traceBufferSize": {"value": "big"}}}}]}',
            ["traceBufferSize is 'big'", "0x8000000"],
        ),
    ],
)
def test_bad_file(home: Path, content: str | None, texts: list[str]) -> None:
    path = home / "bad.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigurationError) as error:
        configuration_from_environment({"HABANA_PROFILE": "1", "HABANA_PROF_CONFIG": str(path)})
    for text in (str(path), *texts):
        assert text in str(error.value)


def test_unknown_names_are_reported_and_kept(home: Path) -> None:
    path = home / ".habana" / "prof_config.json"
    path.parent.mkdir()
    path.write_text('{"GeneralSettings": {"values": {"outdri": {"value": "x"}}}, "Plugins": [{"name": "Extra"}]}')
    with pytest.warns(UserWarning, match=r"prof_config.json: unknown and without effect: .*outdri, Extra"):
        load_configuration(path)
    assert "unknown and without effect: GeneralSettings.outdri, Extra" in call("-s", "mine").output
    assert json.loads(path.read_text())["GeneralSettings"]["values"]["outdri"] == {"value": "x"}


# -- the terminal -----------------------------------------------------------------------------------------------------


class Terminal:
    """The command alone on a terminal of its own."""

    def __init__(self, home: Path) -> None:
        self._end, inner = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "launcher.prof_config"],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env=os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(home), "COLUMNS": "100", "TERM": "dumb"},
            start_new_session=True,
        )
        os.close(inner)
        self._rest = ""  # shown behind what was last waited for

    def type(self, line: str) -> None:
        os.write(self._end, line.encode() + b"\n")

    def until(self, text: str, seconds: float = 30) -> str:
        """What it shows up to and with `text`; all the rest where that is empty."""
        shown, deadline = self._rest, time.monotonic() + seconds
        while not text or text not in shown:
            ready, _, _ = select.select([self._end], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} did not appear in:\n{shown}"
            try:
                part = os.read(self._end, 4096)
            except OSError as error:  # what a terminal answers when its program has ended
                assert error.errno == errno.EIO
                part = b""
            if not part:
                assert not text, f"{text!r} did not appear in:\n{shown}"
                break
            shown += part.decode()
        end = shown.index(text) + len(text) if text else len(shown)
        shown, self._rest = shown[:end], shown[end:]
        return shown

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._end)


def test_interactive(home: Path) -> None:
    terminal = Terminal(home)
    try:
        shown = terminal.until("q: quit")
        assert "device-acq" in shown
        assert "default_profiling" in shown
        terminal.type("1")
        terminal.until("session (NAME)")
        terminal.type("evening")
        terminal.until("evening")
        terminal.until("q: quit")
        terminal.type("15")
        terminal.until("buffer (MB) [128]")
        terminal.type("none")
        terminal.until("none: use whole megabytes from 1 to 65536")
        terminal.type("64")
        terminal.until("q: quit")
        terminal.type("99")
        terminal.until("99: use a number from 1 to 17")
        terminal.until("q: quit")
        terminal.type("4")
        terminal.until("invocations range (A-B) [all]")
        terminal.type("2-6")
        terminal.until("q: quit")
        terminal.type("s")
        terminal.until("Config file was edited")
        assert terminal.process.wait(20) == 0
    finally:
        terminal.close()
    config = configuration_from_environment({"HABANA_PROFILE": "1", "HOME": str(home)})
    assert config == ProfilerConfig(session="evening", phase="multi-enq", invocations=(2, 6), buffer_mb=64)


def test_interactive_template_and_leaving(home: Path) -> None:
    terminal = Terminal(home)
    try:
        terminal.until("q: quit")
        terminal.type("t")
        terminal.until("template:")
        terminal.type("profile_api")
        terminal.until("profileApi")
        terminal.until("q: quit")
        terminal.type("q")
        terminal.until("Leave without saving the changes?")
        terminal.type("y")
        assert terminal.process.wait(20) == 0
    finally:
        terminal.close()
    assert not (home / ".habana" / "prof_config.json").exists()
