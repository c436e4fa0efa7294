"""`tfcore`'s meters under a name that the child has too, where the zygote loads that one file by itself."""

from tfcore.testing.meters import AllocationMeter, OperationCounter

__all__ = ["AllocationMeter", "OperationCounter"]
