"""Write the pages that people read about a graded class: feedback for students, a report for the teacher."""
