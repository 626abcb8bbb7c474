"""History: a log read after the fact: audit, replay, why, verify."""
