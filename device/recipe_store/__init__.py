"""Recipes on disk: a cache folder that many processes and many runs share."""

from .settings import StoreSettings, read_store_settings
from .store import RecipeStore, open_store

__all__ = ["RecipeStore", "StoreSettings", "open_store", "read_store_settings"]
