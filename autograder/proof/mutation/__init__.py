"""Grade right answers of the bank with one fault each: are they rejected, and is the explanation true?"""
