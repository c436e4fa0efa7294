"""Make up classes: `make` one student of each kind, for tests; `simulate` any number, to rehearse a term."""
