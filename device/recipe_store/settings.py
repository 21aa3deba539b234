"""What the environment says about the recipe cache on disk.

PT_HPU_RECIPE_CACHE_CONFIG      path,delete_on_init,size_MB[,on_NFS]; an empty path means no cache on disk
PT_RECIPE_CACHE_PATH            its predecessors, used where the above is not set or names no path:
PT_CACHE_FOLDER_DELETE          false
PT_CACHE_FOLDER_SIZE_MB         1024
PT_RECIPE_CACHE_IGNORE_VERSION  take recipes of other versions of the software, too (default false)
PT_RECIPE_CACHE_DUMP_DEBUG      write <hash>.hash_content beside each recipe: what its name is made of
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigurationError

CONFIG = "PT_HPU_RECIPE_CACHE_CONFIG"
DEFAULT_SIZE_MB = 1024
LARGEST_SIZE_MB = 2**40  # an exabyte: no disk is larger, so the figure must be a mistake
FORM = "path,delete_on_init,size_MB[,on_NFS], such as /var/cache/recipes,false,1024"

_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class StoreSettings:
    """Where the cache lies and how large it may become."""

    path: Path
    delete: bool = False  # remove what earlier jobs have left there
    size_bytes: int = DEFAULT_SIZE_MB * 2**20
    on_nfs: bool = False
    ignore_version: bool = False
    dump_debug: bool = False


def read_store_settings(environ: Mapping[str, str]) -> StoreSettings | None:
    """The settings, or None where no path is given.

    Raises:
        ConfigurationError: a variable has a value that cannot be used; it is named.
    """
    ignore_version = _truth(environ.get("PT_RECIPE_CACHE_IGNORE_VERSION", ""), "PT_RECIPE_CACHE_IGNORE_VERSION")
    dump_debug = _truth(environ.get("PT_RECIPE_CACHE_DUMP_DEBUG", ""), "PT_RECIPE_CACHE_DUMP_DEBUG")
    text = environ.get(CONFIG, "").strip()
    path, delete, size, on_nfs = "", False, DEFAULT_SIZE_MB * 2**20, False
    if text:
        parts = [part.strip() for part in text.split(",")]
        if len(parts) not in (3, 4):
            raise ConfigurationError(f"{CONFIG}={text!r} has {len(parts)} fields, not 3 or 4; write {FORM}")
        where = f"{CONFIG}={text!r}: "
        path = parts[0]
        delete = _truth(parts[1], f"{where}delete_on_init")
        size = _size(parts[2], f"{where}size_MB")
        on_nfs = _truth(parts[3], f"{where}on_NFS") if len(parts) == 4 else False
    if not path:
        path = environ.get("PT_RECIPE_CACHE_PATH", "").strip()
        delete = _truth(environ.get("PT_CACHE_FOLDER_DELETE", ""), "PT_CACHE_FOLDER_DELETE")
        size = _size(environ.get("PT_CACHE_FOLDER_SIZE_MB", ""), "PT_CACHE_FOLDER_SIZE_MB")
    if not path:
        return None
    folder = Path(path).expanduser().absolute()
    return StoreSettings(folder, delete, size, on_nfs, ignore_version, dump_debug)


def _truth(text: str, what: str) -> bool:
    word = text.strip().lower()
    if word and word not in _TRUTH:
        raise ConfigurationError(f"{what}={text!r} is not a boolean; use true or false")
    return _TRUTH[word] if word else False


def _size(text: str, what: str) -> int:
    """Bytes of a size in MB."""
    if not text.strip():
        return DEFAULT_SIZE_MB * 2**20
    try:
        megabytes = int(text)
    except ValueError as error:
        raise ConfigurationError(f"{what}={text!r} is not a whole number of megabytes") from error
    if not 1 <= megabytes <= LARGEST_SIZE_MB:
        raise ConfigurationError(
            f"{what}={megabytes} is not a size of a cache in megabytes; use a number from 1 on, such as 1024"
        )
    return megabytes * 2**20
