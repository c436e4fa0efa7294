"""Chapter 11: sharpening. Exercises in the order of the notebook."""

ORDER = ()
