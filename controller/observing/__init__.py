"""Observing: from what the API server tells to records of the log."""
