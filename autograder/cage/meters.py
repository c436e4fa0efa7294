"""Provide `tfcore`'s meters under a name that also exists in the child, where the zygote loads their file."""

from tfcore.testing.meters import AllocationMeter, OperationCounter

__all__ = ["AllocationMeter", "OperationCounter"]
