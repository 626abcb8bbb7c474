"""Import: from what others recorded to a log; docs/history.md has the design."""
