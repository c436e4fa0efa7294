"""Load a published model, and save one so that transformers can load it."""

from __future__ import annotations

import json as json_text
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tfcore.io.family import family_of_json, family_of_model, untied
from tfcore.io.files import CONFIG, GGUF, WEIGHTS, Weights, find_model, names_in, read_json, write
from tfcore.io.gguf import GGUFFile
from tfcore.io.match import first_of, has_own_head, match_names, names_left_out, names_lost
from tfcore.io.table import link


def from_pretrained(
    name_or_folder: str | Path | GGUFFile,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> nn.Module:
    """Load a model from a folder, from a GGUF file, or from the hub by its name there.

    Of a folder only ``config.json`` and safetensors are read. A file that asks for what the model here does
    not compute, that lacks a tensor or has one too many, is refused as a whole. Two kinds may be there beside
    the model's: masks and the like, which the model computes itself, and parts that the model here lacks,
    such as the heads of BERT and the encoder of Whisper; a ``UserWarning`` names these.

    Args:
        name_or_folder: a folder with ``config.json`` and weights, a file such as ``model.gguf``, that file
            opened as a :class:`GGUFFile`, or a name such as "openai-community/gpt2".
        dtype: of the parameters.
        device: where they live.

    Returns:
        The model in evaluation mode: a :class:`~tfcore.models.Decoder`, ``Encoder``, ``EncoderDecoder``, ...

    Raises:
        FileNotFoundError: a file that is not there.
        ConnectionError: nothing came from the hub.
        ValueError: a family, a field or a tensor that is not known, missing, or of the wrong shape.

    >>> import tempfile
    >>> from tfcore.models import Decoder
    >>> from tfcore.models.presets import preset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_pretrained(Decoder(preset("gpt2-tiny")), folder)
    ...     print(type(from_pretrained(folder)).__name__)
    Decoder
    """
    if not dtype.is_floating_point:
        raise ValueError(f"expected a floating-point type, got {dtype}; quantize the model once it is loaded")
    place, file = _find(name_or_folder)
    json = file.json if file else read_json(place / CONFIG)
    try:
        family = family_of_json(json)
        config = family.config(json)
    except ValueError as error:
        raise ValueError(f"{place if file else place / CONFIG}: {error}") from error
    weights = file or Weights(place)
    if has_own_head(family, weights):
        config = untied(config)
    with torch.device("meta"), _WithoutStartValues():  # shapes alone: no memory yet, and nothing random
        model = family.model(config)

    links, parameters = link(family.rows, model), dict(model.named_parameters())
    needed = {name: tuple(x.shape) for each in links for name, x in each.to_disk(parameters).items()}
    names = match_names(family, weights, needed)
    if left_out := names_left_out(family, weights.shapes):
        what = f"{len(left_out)} tensors of {place}, for which {type(model).__name__} has no place"
        message = f"left out {what}: {first_of(left_out)}; save_pretrained will not write them either"
        warnings.warn(message, stacklevel=2)

    def read(name: str) -> Tensor:
        return weights.read(names[name]) if name in names else torch.zeros(needed[name])

    whole: dict[str, Any] = {"copy": True, "memory_format": torch.contiguous_format}
    read_in = (tensors for each in links for tensors in each.from_disk(read).items())
    _fill(model, {name: x.to(device, dtype, **whole) for name, x in read_in})
    return model.to(device).eval()


_DRAWS = (nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_, Tensor.normal_, Tensor.uniform_)


class _WithoutStartValues(TorchFunctionMode):
    """Draw no start values: for a tensor on "meta", torch would import its compiler, which takes seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        return (args or (given["tensor"],))[0] if func in _DRAWS else func(*args, **given)


def save_pretrained(model: nn.Module, folder: str | Path) -> None:
    """Write ``config.json`` and ``model.safetensors`` as transformers reads them.

    A model holds neither a tokenizer nor settings of generation: copy their files if others are to use it.

    Args:
        model: any model whose configuration some family of transformers can express.
        folder: where to write; it is made if it does not exist. Files of the same names are replaced once the
            new ones are whole, but not if they hold tensors that the model lacks.

    Raises:
        ValueError: a model that no family describes, or a folder with tensors that would be lost.

    >>> import tempfile
    >>> from tfcore.models import Decoder
    >>> from tfcore.models.presets import gpt2
    >>> model = Decoder(gpt2(12, 3, 2, vocab_size=50, max_len=20))
    >>> tokens = torch.tensor([[7, 1, 4]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_pretrained(model, folder)
    ...     print(sorted(path.name for path in Path(folder).iterdir()))
    ...     torch.equal(from_pretrained(folder)(tokens), model(tokens))
    ['config.json', 'model.safetensors']
    True
    """
    family, json = family_of_model(model)
    parameters = dict(model.named_parameters())
    tensors = {
        name: x.detach().cpu().clone(memory_format=torch.contiguous_format)
        for each in link(family.rows, model)
        for name, x in each.to_disk(parameters).items()
    }
    text = json_text.dumps(json, indent=2, sort_keys=True) + "\n"
    folder = Path(folder)
    if lost := names_lost(family, names_in(folder), tensors):
        raise ValueError(
            f"expected a folder with no tensors but the model's, got {len(lost)} in {folder} that it lacks "
            f"and that would be lost: {first_of(lost)}; save to another folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / WEIGHTS, lambda path: save_file(tensors, path, metadata={"format": "pt"}))
    write(folder / CONFIG, lambda path: path.write_text(text, encoding="utf-8"))


def _find(name_or_folder: str | Path | GGUFFile) -> tuple[Path, GGUFFile | None]:
    """Find the folder or the GGUF file, which is opened."""
    if isinstance(name_or_folder, GGUFFile):
        return name_or_folder.folder, name_or_folder
    place = find_model(name_or_folder)
    return place, GGUFFile(place) if place.suffix == GGUF else None


def _fill(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put each tensor in the place of a parameter, and of all that are tied to it."""
    new = {old: nn.Parameter(tensors[name]) for name, old in model.named_parameters()}
    for name, old in list(model.named_parameters(remove_duplicate=False)):
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, new[old])
