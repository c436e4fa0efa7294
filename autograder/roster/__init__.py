"""Know who is in the class: the people, who has not handed in, and all that is kept about one of them."""
