"""Writing: from what the fold wants to few requests."""
