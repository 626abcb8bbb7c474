"""Simulating: the real controller beside a simulated cluster, measured."""
