"""Right answers of the bank with one fault each, graded: does the grader reject them, and say why truly?"""
