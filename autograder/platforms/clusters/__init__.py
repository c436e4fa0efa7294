"""Start the workers of ``autograder grade --executor dask`` on Slurm or Kubernetes."""
