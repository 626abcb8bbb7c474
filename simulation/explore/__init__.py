"""Seeded exploration: whole controllers on a simulated cluster, on virtual time, with faults."""
