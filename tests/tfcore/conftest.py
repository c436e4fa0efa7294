import hypothesis

hypothesis.settings.register_profile("tfcore", max_examples=40, deadline=None, derandomize=True)
hypothesis.settings.load_profile("tfcore")
