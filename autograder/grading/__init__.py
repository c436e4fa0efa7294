"""Grading: a submission's bytes in, one verdict out, and what is done with verdicts.

`pair` runs a zygote and a judge side by side; `judge` grades one submission; `batch` grades a class.
"""
