"""Prove that the grader is right: with the bank, mutants, made-up classes and attacks, on this machine."""
