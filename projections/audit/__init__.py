"""The audit of a history: who had which index when, and what went wrong. Pure; docs/history.md has the design."""
