"""Bindings of the media pipeline to frameworks."""
