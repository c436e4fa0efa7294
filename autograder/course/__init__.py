"""What a course is on disk, and what every room above needs."""
