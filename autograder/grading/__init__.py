"""Grade submissions: one submission becomes one verdict, and verdicts become points in the gradebook.

`pair` runs a zygote and a judge side by side; `judge` grades one submission. `batch` grades a class:
`submissions` finds the notebooks, `executors` gives them to pairs, `store` keeps the verdicts, `gradebook`
enters the points.
"""
