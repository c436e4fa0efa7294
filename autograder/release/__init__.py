"""From the instructor's notebooks to the students', and what a change of either concerns."""
