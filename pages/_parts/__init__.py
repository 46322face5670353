"""What every page is built from; `resources` holds the only caches, `strings` the long texts."""
