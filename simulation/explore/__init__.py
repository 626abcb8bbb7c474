"""Seeded exploration: whole controllers on a simulated cluster, under virtual time, with faults; `python -m` runs it."""
