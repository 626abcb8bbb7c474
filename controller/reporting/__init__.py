"""The report: one page that shows what a log holds. What it shows is computed in pure modules, then rendered."""
