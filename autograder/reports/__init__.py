"""What people read of a graded class: the pages of feedback, and the report on the class."""
