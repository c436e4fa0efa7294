import hypothesis
import torch

torch.set_num_threads(1)
hypothesis.settings.register_profile("tfcore", max_examples=40, deadline=None, derandomize=True)
hypothesis.settings.load_profile("tfcore")
