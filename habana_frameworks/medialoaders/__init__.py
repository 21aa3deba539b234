"""Names of the data loaders over the media pipeline, a closed package."""
