"""Buckets of dynamic shapes on disk, so that another run begins with them: what each one spans, and how it was used."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from .bucket_policies import History
from .buckets import Bucket, Buckets, Family
from .errors import ConfigurationError

VERSION = 1


def save(buckets: Buckets, path: Path) -> None:
    """Write the buckets.

    Raises:
        OSError: the file cannot be written.
    """
    document = {
        "version": VERSION,
        "families": {key: dataclasses.asdict(family) for key, family in buckets.families.items()},
    }
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_text(json.dumps(document))
    os.replace(aside, path)


def load(buckets: Buckets, path: Path) -> None:
    """Take the buckets of a file in addition to those that there are; those of the same graph are replaced.

    Raises:
        ConfigurationError: the file cannot be read, or is none of these.
    """
    try:
        document = json.loads(path.read_text())
        if document["version"] != VERSION:
            raise ValueError(f"version {document['version']}")
        families = {key: _family(entry) for key, entry in document["families"].items()}
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{path} is no checkpoint of dynamic shapes ({error}); save_ds_checkpoint(path) makes one"
        ) from error
    buckets.families.update(families)


def _family(entry: dict[str, Any]) -> Family:
    history = History(**{name: _sizes(value) for name, value in entry["history"].items()})
    return Family(history, [_bucket(bucket) for bucket in entry["buckets"]])


def _bucket(entry: dict[str, Any]) -> Bucket:
    seen = entry["seen"]
    return Bucket(
        number=entry["number"],
        low=_sizes(entry["low"]),
        high=_sizes(entry["high"]),
        runs=entry["runs"],
        is_final=entry["is_final"],
        seen=None if seen is None else (_sizes(seen[0]), _sizes(seen[1])),
    )


def _sizes(value: Any) -> Any:
    return tuple(tuple(sizes) for sizes in value)
