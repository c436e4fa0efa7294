"""A class of made-up students, made from the declarations of the exercises; see `autograder.samples.make`."""
