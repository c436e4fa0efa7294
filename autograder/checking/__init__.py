"""Check one answer to one exercise: the declaration, the examination and the report."""
