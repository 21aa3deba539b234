"""Recipes on disk, by the signature of their graph.

    store = open_store(settings, spec, software)       once per process, None where no cache is configured
    recipe = store.get(signature)                      before a compilation, None where it has to be compiled
    store.put(recipe)                                  after it

Which recipes a process finds does not depend on how fast its siblings are: what another rank of the same job wrote is
left alone (`job.py`), so every rank compiles each recipe that was not there when the job began, once. Two jobs that run
at the same time on one folder do see each other's recipes as they come.

`delete_on_init`: every rank removes at its start what other jobs have left, and nothing of its own job's. So the folder
is empty for all ranks of the job whatever order they start in, and what a sibling has already written stays.

Files are named `<hash>_<environment hash>_syn<software version>.recipe`: the hash of the graph's signature, and one
over the card's description and the compiler (`fingerprint.py`).
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from ..compiler.recipe import Recipe
from ..compiler.recipe_document import DocumentError
from ..errors import ConfigurationError
from ..spec import CardSpec
from .fingerprint import Fingerprint, digest, fingerprint
from .folder import HASH_CONTENT, RECIPE, CacheFolder
from .job import job_of
from .settings import StoreSettings
from .stored import Label, label_of, packed, unpacked

_log = logging.getLogger(__name__)

WRITERS = 16
"""Processes that may fill the folder at once before the limit is looked at too rarely."""
_HEAD_BYTES = 4096
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def open_store(
    settings: StoreSettings | None, spec: CardSpec, software: str, environ: Mapping[str, str] | None = None
) -> RecipeStore | None:
    """The cache that the settings ask for, or None.

    Args:
        settings: what `read_store_settings` found.
        spec: the card for which recipes are compiled.
        software: version of the emulated software, such as "1.19.0".
        environ: where the job's name stands; by default the process's environment.

    Raises:
        ConfigurationError: the folder cannot be created or written.
    """
    if settings is None:
        return None
    return RecipeStore(settings, fingerprint(spec, software), job_of(os.environ if environ is None else environ))


class RecipeStore:
    """The cache of one process. `hits` and `misses` count what `get` found."""

    def __init__(self, settings: StoreSettings, prints: Fingerprint, job: str) -> None:
        self.settings = settings
        self.hits = 0
        self.misses = 0
        self._prints = prints
        self._job = job
        self._folder = CacheFolder(settings.path, settings.on_nfs)
        self._known: set[str] = set()  # signatures that this process has read or written
        self._intact: set[str] = set()  # files that a sibling has written and that need no second one
        self._warned: set[str] = set()
        self._may_write = True
        self._room = 0  # bytes below the limit when the folder was last looked through
        self._written = 0  # since then
        try:
            self._folder.open()
            if settings.delete:
                self._folder.clear(self._is_siblings)
        except OSError as error:
            raise ConfigurationError(
                f"the recipe cache {settings.path} cannot be used: {error.strerror or error}; "
                "name a folder that can be written, or unset PT_HPU_RECIPE_CACHE_CONFIG"
            ) from error
        self._evict()

    def get(self, signature: str) -> Recipe | None:
        """The recipe of that signature, or None. A file that cannot be read is said once and counts as none."""
        for name in self._candidates(signature):
            recipe = self._read(name, signature)
            if recipe is not None:
                self._known.add(signature)
                self._folder.touch(name)
                self.hits += 1
                return recipe
        self.misses += 1
        return None

    def put(self, recipe: Recipe) -> None:
        """Keep a recipe. Where that fails (disk full, folder gone) it is said once and the process goes on without."""
        self._known.add(recipe.signature)
        name = self._name(recipe.signature)
        if not self._may_write or name in self._intact:
            return
        content = packed(recipe, self._label(recipe.signature))
        if len(content) > self.settings.size_bytes:
            self._warn("size", f"{recipe.name} ({len(content)} bytes) is larger than the whole recipe cache; not kept")
            return
        try:
            self._folder.write(name, content)
            if self.settings.dump_debug:
                self._dump(recipe)
            self._written += len(content)
            if self._written * WRITERS >= self._room:
                self._evict()
        except OSError as error:
            self._may_write = False
            text = "the disk is full" if error.errno in _DISK_FULL else error.strerror or str(error)
            self._warn("write", f"the recipe cache {self.settings.path} cannot be written: {text}; going on without")

    # -- files ----------------------------------------------------------------------------------------------------

    def _name(self, signature: str) -> str:
        return f"{_hash(signature)}_{self._prints.environment}_syn{self._prints.software}{RECIPE}"

    def _candidates(self, signature: str) -> list[str]:
        own = self._name(signature)
        if not self.settings.ignore_version:
            return [own]
        others = self._folder.names(f"{_hash(signature)}_*{RECIPE}")
        return [own, *(name for name in others if name != own)]

    def _label(self, signature: str) -> Label:
        prints = self._prints
        return Label(signature, prints.card, prints.compiler, prints.software, self._job)

    def _read(self, name: str, signature: str) -> Recipe | None:
        try:
            content = self._folder.read(name)
            if content is None:
                return None
            label, recipe = label_of(content), unpacked(content)
            if label.signature != signature or recipe.signature != signature:
                raise DocumentError("foreign: it holds another graph's recipe")
            if label.card != self._prints.card:
                if self.settings.ignore_version:
                    return None  # looked at because of its graph; another card's
                raise DocumentError("foreign: it was compiled for another card")
        except DocumentError as error:
            self._warn(name, f"recipe cache file {self.settings.path / name} is ignored and will be replaced: {error}")
            return None
        except OSError as error:
            self._warn(
                name, f"recipe cache file {self.settings.path / name} cannot be read: {error.strerror}; it is ignored"
            )
            return None
        if label.job == self._job and signature not in self._known:
            self._intact.add(name)
            return None
        return recipe

    def _is_siblings(self, path: Path) -> bool:
        """Whether a process of this job wrote the file."""
        try:
            with path.open("rb") as file:
                return label_of(file.read(_HEAD_BYTES)).job == self._job
        except (DocumentError, OSError):
            return False

    def _dump(self, recipe: Recipe) -> None:
        prints = self._prints
        lines = [
            f"signature {recipe.signature}",
            f"recipe {recipe.name}",
            f"card {recipe.card} {prints.card}",
            f"compiler {prints.compiler}",
            f"software {prints.software}",
            *(f"{node.engine.value} {node.kernel} {node.dtype} {list(node.shape)}" for node in recipe.program.nodes),
        ]
        self._folder.write(f"{_hash(recipe.signature)}{HASH_CONTENT}", ("\n".join(lines) + "\n").encode())

    def _evict(self) -> None:
        try:
            self._room = self._folder.evict(self.settings.size_bytes)
        except OSError as error:
            self._warn("evict", f"the recipe cache {self.settings.path} cannot be kept small: {error.strerror}")
        self._written = 0

    def _warn(self, what: str, text: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            _log.warning("%s (said once)", text)


def _hash(signature: str) -> str:
    return digest(signature)[:20]
