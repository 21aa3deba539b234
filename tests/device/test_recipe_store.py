"""Recipes as documents and on disk: what comes back, who sees what, limits, damage, and many processes at once."""

from __future__ import annotations

import dataclasses
import errno
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from device.compiler.recipe_document import (
    DocumentError,
    programs_document,
    programs_of,
    recipe_document,
    recipe_of,
)
from device.errors import ConfigurationError
from device.recipe_store import RecipeStore, StoreSettings, open_store, read_store_settings
from device.recipe_store import folder as cache_folder
from device.recipe_store.fingerprint import fingerprint
from device.recipe_store.job import job_of
from device.spec import CardSpec, load_card

from .programs import GAUDI2, addition, gemm, program, recipe

STRESS = Path(__file__).with_name("recipe_store_processes.py")


def opened(path: Path, job: str, fields: str = "false,1024", spec: CardSpec = GAUDI2, **environ: str) -> RecipeStore:
    """The store of a process of that job."""
    variables = {"PT_HPU_RECIPE_CACHE_CONFIG": f"{path},{fields}", "WORLD_SIZE": "8", "HPUCLUSTER_JOB_ID": job}
    settings = read_store_settings(variables | environ)
    store = open_store(settings, spec, environ.get("software", "1.19.0"), variables)
    assert store is not None
    return store


def files(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir() if not file.name.startswith("."))


class TestDocuments:
    def test_a_recipe_comes_back_as_it_was(self) -> None:
        before = recipe("abc")
        after = recipe_of(json.loads(json.dumps(recipe_document(before))))
        assert after == before
        assert all(entry.node is node for entry, node in zip(after.nodes, after.program.nodes, strict=True))

    def test_programs_come_back_by_name(self) -> None:
        programs = {"a": program(gemm(0, 8, 8, 8)), "b": program(addition(0, 5))}
        assert programs_of(json.loads(json.dumps(programs_document(programs)))) == programs

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda d: d.update(format=99), "format: expected 1, got 99"),
            (lambda d: d["fields"].update(Access=["buffer"]), "other fields"),
            (lambda d: d.pop("recipe"), "recipe: missing"),
            (lambda d: d["program"][0][1].__setitem__(0, "GPU"), r"program\.nodes\[1\]\.engine: expected one of MME"),
            (lambda d: d["program"][0][0].__setitem__(6, "many"), r"program\.nodes\[0\]\.operations: expected float"),
            (lambda d: d["program"][0][0][7][0].__setitem__(0, 7), r"program\.nodes\[0\]: .*no buffer 7"),
            (lambda d: d["program"].pop(), "program: expected a list of 3 values"),
            (lambda d: d["recipe"].pop(), "recipe: expected a list of"),
        ],
    )
    def test_a_bad_document_is_refused_at_its_place(self, damage, message: str) -> None:
        document = json.loads(json.dumps(recipe_document(recipe("abc"))))
        damage(document)
        with pytest.raises(DocumentError, match=message):
            recipe_of(document)

    @pytest.mark.parametrize("document", [None, [], "text", 3, {}])
    def test_anything_else_is_refused(self, document: object) -> None:
        with pytest.raises(DocumentError):
            recipe_of(document)


class TestSettings:
    def test_no_path_means_no_cache(self) -> None:
        assert read_store_settings({}) is None
        assert read_store_settings({"PT_HPU_RECIPE_CACHE_CONFIG": ",false,1024,false"}) is None

    def test_three_or_four_fields(self, tmp_path: Path) -> None:
        short = read_store_settings({"PT_HPU_RECIPE_CACHE_CONFIG": f"{tmp_path},True,7"})
        assert short is not None
        assert (short.path, short.delete, short.size_bytes, short.on_nfs) == (tmp_path, True, 7 * 2**20, False)
        long = read_store_settings({"PT_HPU_RECIPE_CACHE_CONFIG": f"{tmp_path},false,,true"})
        assert long is not None
        assert (long.delete, long.size_bytes, long.on_nfs) == (False, 1024 * 2**20, True)

    def test_the_predecessors_count_where_the_new_variable_names_no_path(self, tmp_path: Path) -> None:
        old = {"PT_RECIPE_CACHE_PATH": str(tmp_path), "PT_CACHE_FOLDER_DELETE": "1", "PT_CACHE_FOLDER_SIZE_MB": "3"}
        settings = read_store_settings({**old, "PT_HPU_RECIPE_CACHE_CONFIG": ",false,1024"})
        assert settings is not None
        assert (settings.path, settings.delete, settings.size_bytes) == (tmp_path, True, 3 * 2**20)
        settings = read_store_settings({**old, "PT_HPU_RECIPE_CACHE_CONFIG": "/elsewhere,false,1024"})
        assert settings is not None
        assert settings.path == Path("/elsewhere")

    @pytest.mark.parametrize(
        ("variables", "message"),
        [
            ({"PT_HPU_RECIPE_CACHE_CONFIG": "/x"}, "has 1 fields, not 3 or 4; write path,delete_on_init"),
            ({"PT_HPU_RECIPE_CACHE_CONFIG": "/x,true,1,false,9"}, "has 5 fields"),
            ({"PT_HPU_RECIPE_CACHE_CONFIG": "/x,maybe,1"}, "delete_on_init='maybe' is not a boolean"),
            ({"PT_HPU_RECIPE_CACHE_CONFIG": "/x,false,big"}, "size_MB='big' is not a whole number"),
            ({"PT_HPU_RECIPE_CACHE_CONFIG": "/x,false,-5"}, "size_MB=-5 is not a size"),
            ({"PT_HPU_RECIPE_CACHE_CONFIG": "/x,false,0"}, "size_MB=0 is not a size"),
            ({"PT_HPU_RECIPE_CACHE_CONFIG": f"/x,false,{2**62}"}, "is not a size"),
            ({"PT_HPU_RECIPE_CACHE_CONFIG": "/x,false,1,nfs4"}, "on_NFS='nfs4' is not a boolean"),
            ({"PT_RECIPE_CACHE_PATH": "/x", "PT_CACHE_FOLDER_SIZE_MB": "1.5"}, "PT_CACHE_FOLDER_SIZE_MB='1.5'"),
            ({"PT_RECIPE_CACHE_IGNORE_VERSION": "2"}, "PT_RECIPE_CACHE_IGNORE_VERSION='2' is not a boolean"),
        ],
    )
    def test_a_bad_value_is_named(self, variables: dict[str, str], message: str) -> None:
        with pytest.raises(ConfigurationError) as caught:
            read_store_settings(variables)
        assert message in str(caught.value)

    def test_a_path_that_cannot_be_used_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.touch()
        for path in (file, file / "below", Path("/proc/recipes")):
            with pytest.raises(ConfigurationError, match=r"cannot be used.*name a folder that can be written"):
                opened(path, "a")

    def test_the_folder_is_created(self, tmp_path: Path) -> None:
        opened(tmp_path / "a" / "b", "a")
        assert (tmp_path / "a" / "b").is_dir()


class TestStore:
    def test_the_next_job_finds_what_this_one_has_compiled(self, tmp_path: Path) -> None:
        first = opened(tmp_path, "first")
        assert first.get("abc") is None
        first.put(recipe("abc"))
        assert opened(tmp_path, "second").get("abc") == recipe("abc")
        assert (first.hits, first.misses) == (0, 1)

    def test_a_process_finds_its_own_but_a_sibling_compiles_for_itself(self, tmp_path: Path) -> None:
        rank0, rank1 = opened(tmp_path, "job"), opened(tmp_path, "job")
        assert rank0.get("abc") is None
        rank0.put(recipe("abc"))
        assert rank0.get("abc") is not None
        assert rank1.get("abc") is None
        rank1.put(recipe("abc"))
        assert rank1.get("abc") is not None
        assert len(files(tmp_path)) == 1

    def test_files_are_named_as_the_real_ones(self, tmp_path: Path) -> None:
        opened(tmp_path, "a", PT_RECIPE_CACHE_DUMP_DEBUG="1").put(recipe("abc"))
        content, name = files(tmp_path)
        digest, environment, version = name.removesuffix(".recipe").split("_")
        assert (len(digest), len(environment), version) == (20, 12, "syn1.19.0")
        assert content == f"{digest}.hash_content"
        assert "signature abc" in (tmp_path / content).read_text()

    def test_another_card_or_software_finds_nothing(self, tmp_path: Path) -> None:
        opened(tmp_path, "a").put(recipe("abc"))
        faster = dataclasses.replace(GAUDI2, hbm=dataclasses.replace(GAUDI2.hbm, bandwidth_bytes_per_s=9e12))
        assert opened(tmp_path, "b", spec=faster).get("abc") is None
        assert opened(tmp_path, "b", spec=load_card("gaudi3")).get("abc") is None
        assert opened(tmp_path, "b", software="1.22.0").get("abc") is None
        ignoring = {"PT_RECIPE_CACHE_IGNORE_VERSION": "1"}
        assert opened(tmp_path, "b", software="1.22.0", **ignoring).get("abc") == recipe("abc")
        assert opened(tmp_path, "b", spec=faster, **ignoring).get("abc") is None

    def test_delete_on_init_empties_the_folder_of_others_and_spares_siblings(self, tmp_path: Path) -> None:
        opened(tmp_path, "before").put(recipe("old"))
        (tmp_path / "notes.txt").write_text("not of the cache")
        rank0 = opened(tmp_path, "job", "true,1024")
        assert rank0.get("old") is None
        rank0.put(recipe("new"))
        rank1 = opened(tmp_path, "job", "true,1024")  # starts late
        assert rank1.get("old") is None
        assert opened(tmp_path, "after").get("new") == recipe("new")
        assert "notes.txt" in files(tmp_path)

    def test_the_oldest_used_leave_where_the_folder_is_full(self, tmp_path: Path) -> None:
        def sized(job: str, nbytes: int) -> RecipeStore:
            return RecipeStore(StoreSettings(tmp_path, size_bytes=nbytes), fingerprint(GAUDI2, "1.19.0"), job)

        store = sized("a", 2**30)
        names: dict[str, str] = {}  # file of each recipe
        for number in range(4):
            store.put(recipe(f"r{number}"))
            (names[f"r{number}"],) = set(files(tmp_path)) - set(names.values())
            os.utime(tmp_path / names[f"r{number}"], (1000 + number, 1000 + number))
        size = (tmp_path / names["r0"]).stat().st_size
        assert store.get("r0") is not None  # used now
        store = sized("b", 4 * size + size // 2)  # four fit
        assert len(files(tmp_path)) == 4
        store.put(recipe("r4"))
        later = sized("c", 2**30)
        assert [later.get(f"r{number}") is not None for number in range(5)] == [True, False, True, True, True]

    def test_a_recipe_larger_than_the_cache_is_not_kept(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        store = opened(tmp_path, "a", "false,1")
        for _ in range(2):
            store.put(recipe("huge", nodes=7_000))
        assert files(tmp_path) == []
        assert len(caplog.records) == 1
        assert "larger than the whole recipe cache" in caplog.text

    def test_what_a_killed_process_left_half_written_goes_away(self, tmp_path: Path) -> None:
        half = tmp_path / ".aside-4711-0123"
        half.write_bytes(b"{")
        opened(tmp_path, "a")
        assert half.exists()  # somebody may be writing it
        os.utime(half, (1, 1))
        opened(tmp_path, "a")
        assert not half.exists()


class TestDamage:
    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda content: content[: len(content) // 2], "truncated"),
            (lambda content: content[:20], "foreign or truncated"),
            (lambda content: b"", "foreign or truncated"),
            (lambda content: b"\x7fELF" + bytes(2000), "foreign or truncated"),
            (lambda content: content.replace(b"gemm", b"memm"), "checksum"),
            (lambda content: content.replace(b'"signature": "abc"', b'"signature": "abd"'), "another graph"),
            (lambda content: b'{"kind": "hpucluster recipe"}\n{}\n', "is missing in its first line"),
        ],
        ids=["half", "head", "empty", "foreign", "bits", "other graph", "bare"],
    )
    def test_a_damaged_file_is_said_once_and_replaced(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage, message: str
    ) -> None:
        opened(tmp_path, "a").put(recipe("abc"))
        path = tmp_path / files(tmp_path)[0]
        path.write_bytes(damage(path.read_bytes()))
        store = opened(tmp_path, "b")
        assert store.get("abc") is None
        assert store.get("abc") is None
        assert len(caplog.records) == 1
        assert message in caplog.text
        assert path.name in caplog.text
        store.put(recipe("abc"))
        assert opened(tmp_path, "c").get("abc") == recipe("abc")
        assert len(caplog.records) == 1

    def test_a_folder_in_place_of_a_file_is_said_once(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        opened(tmp_path, "a").put(recipe("abc"))
        path = tmp_path / files(tmp_path)[0]
        path.unlink()
        path.mkdir()
        store = opened(tmp_path, "b")
        assert store.get("abc") is None
        store.put(recipe("abc"))
        store.put(recipe("abd"))
        assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
        assert "cannot be read" in caplog.text

    def test_a_full_disk_is_said_once_and_the_process_goes_on(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = opened(tmp_path, "a")
        store.put(recipe("abc"))

        def full(path: Path, content: bytes) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(Path, "write_bytes", full)
        for signature in ("r1", "r2", "r3"):
            store.put(recipe(signature))
        assert len(caplog.records) == 1
        assert "the disk is full; going on without" in caplog.text
        assert store.get("abc") is not None

    def test_a_folder_that_vanishes_is_said_once(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        path = tmp_path / "cache"
        store = opened(path, "a")
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
        assert store.get("abc") is None
        store.put(recipe("abc"))
        store.put(recipe("abd"))
        assert len(caplog.records) == 1
        assert "cannot be written" in caplog.text


class TestJobs:
    def test_ranks_of_one_launcher_are_one_job(self) -> None:
        rank = {"WORLD_SIZE": "2", "HPUCLUSTER_JOB_ID": "17-ab"}
        assert job_of({**rank, "RANK": "0"}) == job_of({**rank, "RANK": "1"})
        assert job_of(rank) != job_of({**rank, "HPUCLUSTER_JOB_ID": "18-ab"})

    def test_ranks_without_a_name_are_their_parents(self) -> None:
        nameless = {"WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none", "SLURM_JOB_ID": "5"}
        assert job_of(nameless) == job_of({"WORLD_SIZE": "2"})
        assert job_of({}) != job_of({"WORLD_SIZE": "2"})

    def test_a_held_lock_does_not_stop_anybody(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cache_folder, "PATIENCE_S", 0.05)
        for fields in ("false,1024", "false,1024,true"):
            code = (
                "import fcntl, os, sys, time\n"
                f"f = os.open({str(tmp_path / '.lock')!r}, os.O_RDWR | os.O_CREAT)\n"
                f"fcntl.{'lockf' if 'true' in fields else 'flock'}(f, fcntl.LOCK_EX)\n"
                "print('held', flush=True); sys.stdin.read()\n"
            )
            with subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as holder:
                assert holder.stdout is not None
                holder.stdout.readline()
                opened(tmp_path, "a", fields).put(recipe("abc"))
                holder.kill()
        assert opened(tmp_path, "b").get("abc") == recipe("abc")


def test_the_store_needs_no_pytorch() -> None:
    code = "import sys, device.recipe_store; print('torch' in sys.modules)"
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


@pytest.mark.slow
def test_eight_processes_some_killed_share_a_folder(tmp_path: Path) -> None:
    """20 rounds; see `recipe_store_processes.py` for what each checks."""
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, str(STRESS), str(tmp_path / "cache")],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout)
    assert figures["rounds"] == 20
    assert figures["killed"] >= 20
    assert figures["finished"] >= 80
    assert figures["most_compilations_of_one_recipe_by_one_rank"] == 1
    assert done.stderr == ""  # no warning: nothing damaged was ever seen
