"""Chapter 12: sharpening. Exercises in the order of the notebook."""

ORDER = ()
