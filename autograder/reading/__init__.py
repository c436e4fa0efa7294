"""What can be read off a submission's text: calls that do the exercise, and code that tampers."""
