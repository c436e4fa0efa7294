"""The reference implementation of the course *Transformers from first principles*.

Import the room you need: ``tfcore.ops`` and ``tfcore.scaling`` are numpy alone, ``tfcore.masks`` and
``tfcore.attention`` are torch. This file imports neither, so that the numpy chapters start at once.
"""

__version__ = "0.1.0"
