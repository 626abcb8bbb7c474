"""The controller: the shell around the fold, and the one composition root."""
