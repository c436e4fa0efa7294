"""Instruments for tests and for the grader: they count operations and bytes, and never look at a clock.

``meters.py`` counts operations and memory, ``probes.py`` finds the tokens that a model sees, ``mutants.py``
breaks code on purpose to see whether the tests notice.
"""

from tfcore.testing.meters import AllocationMeter, OperationCounter
from tfcore.testing.mutants import Mutant, format_kill_table, kill_table
from tfcore.testing.probes import find_input_leaks, find_leaks, raise_weights

__all__ = [
    "AllocationMeter",
    "Mutant",
    "OperationCounter",
    "find_input_leaks",
    "find_leaks",
    "format_kill_table",
    "kill_table",
    "raise_weights",
]
