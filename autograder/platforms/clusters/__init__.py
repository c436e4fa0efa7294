"""Where the workers of ``autograder grade --executor dask`` can come from: Slurm or Kubernetes."""
