"""Import, audit and what builds on them."""
