"""The pure fold: from records to indices, readiness and the writes that they call for."""
