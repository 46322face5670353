"""DO: one topic a file, one function an act: the only door for writing, for pages and shell alike."""
