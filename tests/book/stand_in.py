"""A small random model in a file as a page loads it, the same each time, and a page that shows it."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import numpy as np
import torch
from book_paths import ROOT
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from tfcore.config import AttentionConfig, BlockConfig, ModelConfig
from tfcore.models import Encoder
from tfwidgets import model_file

WORDS = ["the", "cat", "dog", "it", "was", "and", "saw", "tired", "wide", "play", "cafe", "##ed", "##ing"]
LETTERS = [*string.ascii_lowercase, *(f"##{letter}" for letter in "abcdefghijklmnopqrst")]  # no ##z
PIECES = [*dict.fromkeys([*model_file.SPECIAL, *string.punctuation, *string.digits, *LETTERS, *WORDS])]
TEXT = "the cat played, and the dog saw it; it was tired."
STATE: dict[str, Any] = {
    "text": TEXT,
    "other": "The café was wide.",
    "place": 4,
    "layer": 1,
    "head": 1,
    "name": "a stand-in",
    "jobs": {"0.2": ["previous token", 0.875], "1.1": ["[CLS]", 0.5]},
}


def encoder() -> Encoder:
    """Make a model of two layers and three heads whose maps are far from even."""
    block = BlockConfig(AttentionConfig(12, 3), d_ff=20, norm_place="post", norm_eps=1e-12, dropout=0.1)
    model = Encoder(ModelConfig(len(PIECES), 2, block, num_segments=2, embedding_norm=True)).float()
    rng, weights = np.random.default_rng(0), {}
    for name, tensor in model.state_dict().items():
        spread = 0.1 if "norm" in name or "bias" in name else 0.5
        drawn = torch.from_numpy(rng.normal(0, spread, tensor.shape).astype("f4"))
        weights[name] = drawn + ("norm" in name and name.endswith("weight"))
    model.load_state_dict(weights)
    return model.eval()


def content() -> bytes:
    """Write the stand-in as a model file."""
    return model_file.write(encoder(), model_file._tokenizer(PIECES))


def build(folder: Path) -> Path:
    """Build a page with the widget and the stand-in, by the book's extension; return its folder."""
    source = folder / "stand_in.model"
    source.write_bytes(content())
    state = {**STATE, "source": str(source)}
    shown = "```{anywidget} real_heads\n:alt: Six small maps of attention.\n:caption: Try it.\n"
    (folder / "index.md").write_text(f"# A page\n\n{shown}{json.dumps(state)}\n```\n", "utf8")
    settings: dict[str, Any] = {
        "extensions": ["myst_parser", "tfbook.anywidget"],
        "anywidget_folder": str(ROOT / "book" / "tfwidgets"),
        "html_theme": "basic",
        "html_static_path": [str(ROOT / "book" / "_static")],
        "html_css_files": ["course.css"],
        "html_theme_options": {"nosidebar": True},
    }
    html = folder / "out" / "html"
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            str(folder), None, str(html), str(folder / "out" / "trees"), "html", settings,
            status=None, freshenv=True, warningiserror=True,
        )  # fmt: skip
        app.build()
    assert app.statuscode == 0
    return html
