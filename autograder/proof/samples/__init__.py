"""Made-up classes: `make` has one of each kind, for tests; `simulate` has any number, to try a term with."""
