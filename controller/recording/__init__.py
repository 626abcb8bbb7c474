"""Recording: what a live cluster tells, captured in files without acting."""
