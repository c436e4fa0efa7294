"""The proof that the grader is right: its bank, mutants, made-up classes, attacks, and this machine."""
