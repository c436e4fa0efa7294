"""Files: tensors by name out of one or several safetensors, json, and writing all of it or nothing."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError, safe_open
from torch import Tensor

WEIGHTS, INDEX, CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
GGUF = ".gguf"


class Tensors(Protocol):
    """Tensors by their names on the hub: shapes are known, numbers are read on demand."""

    folder: Path
    shapes: dict[str, tuple[int, ...]]

    def read(self, name: str) -> Tensor:
        """Read one tensor."""


class Weights:
    """The tensors of a folder: shapes are read at once, numbers on demand.

    Args:
        folder: holds ``model.safetensors``, or the shards that ``model.safetensors.index.json`` lists.

    Raises:
        FileNotFoundError: no weights, or a shard that is not there.
        ValueError: a file that is broken.

    >>> import tempfile, torch
    >>> from safetensors.torch import save_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_file({"W": torch.full((2, 3), 7.0)}, f"{folder}/model.safetensors")
    ...     weights = Weights(Path(folder))
    ...     print(weights.shapes, weights.read("W")[0])
    {'W': (2, 3)} tensor([7., 7., 7.])
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._files: dict[str, Path] = {}
        for path, listed in _shards(folder).items():
            with _open(path) as file:
                present = set(file.keys())
                if lost := sorted(listed - present):
                    raise ValueError(
                        f"expected {', '.join(lost)} in {path}, as {INDEX} says, got none of them"
                    )
                for name in present:
                    self.shapes[name] = tuple(file.get_slice(name).get_shape())
                    self._files[name] = path

    def read(self, name: str) -> Tensor:
        """Read one tensor."""
        with _open(self._files[name]) as file:
            return file.get_tensor(name)


def names_in(folder: Path) -> list[str]:
    """List the names of a folder's tensors; none where nothing is whole.

    >>> names_in(Path("no such folder"))
    []
    """
    try:
        return list(Weights(folder).shapes)
    except (FileNotFoundError, ValueError):
        return []


def _shards(folder: Path) -> dict[Path, set[str]]:
    """List the files of weights, and the names that an index expects in each."""
    if (folder / WEIGHTS).is_file():
        return {folder / WEIGHTS: set()}
    if not (folder / INDEX).is_file():
        others = [path.name for path in sorted(folder.glob("*.bin"))]
        raise FileNotFoundError(
            f"expected {WEIGHTS} or {INDEX} in {folder}, got {', '.join(others) or 'neither'}; "
            "only safetensors are read: others can be converted by save_pretrained of transformers"
        )
    weight_map = read_json(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not all(_is_file_name(name) for name in weight_map.values()):
        raise ValueError(
            f"expected a weight_map from names to files of the same folder in {folder / INDEX}, got none"
        )
    shards: dict[Path, set[str]] = {}
    for name, file in weight_map.items():
        shards.setdefault(folder / file, set()).add(name)
    if lost := [str(path) for path in shards if not path.is_file()]:
        raise FileNotFoundError(
            f"expected all files that {INDEX} lists, got no {', '.join(lost)}; download them too"
        )
    return shards


def _is_file_name(name: Any) -> bool:
    return isinstance(name, str) and Path(name).name == name


@contextlib.contextmanager
def _open(path: Path) -> Any:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(
            f"expected a whole safetensors file, got {path}: {error}; copy or download it again"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """Read a json object, or raise an error that names the file and its fault.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no json object in it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "config.json")
    ...     length = path.write_text('{"n_layer": 2}')
    ...     print(read_json(path))
    {'n_layer': 2}
    """
    if not path.is_file():
        raise FileNotFoundError(f"expected {path.name} in {path.parent}, got none; is it a model's folder?")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"expected json in {path}, got {error}; copy or download it again") from error
    if not isinstance(content, dict):
        raise ValueError(f"expected a json object in {path}, got {type(content).__name__}")
    return content


def write(path: Path, write_to: Callable[[Path], object]) -> None:
    """Write a file under another name and rename it at the end, so that it is never half written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(Path(folder, "a.txt"), lambda path: path.write_text("whole"))
    ...     print([(path.name, path.read_text()) for path in Path(folder).iterdir()])
    [('a.txt', 'whole')]
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write_to(unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def find_model(name_or_folder: str | Path) -> Path:
    """Return the folder or the GGUF file of that name, or the folder of a download from the hub.

    Raises:
        ValueError: no name at all.
        FileNotFoundError: neither a folder, nor a GGUF file, nor a name that the hub could have.
        ConnectionError: nothing came from the hub.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(find_model(folder) == Path(folder))
    True
    """
    if not isinstance(name_or_folder, str | os.PathLike) or name_or_folder == "":
        raise ValueError(
            f"expected a folder or a name such as openai-community/gpt2, got {name_or_folder!r}; "
            "give '.' for the current folder"
        )
    folder = Path(name_or_folder).expanduser()
    if folder.is_dir() or (folder.suffix == GGUF and folder.is_file()):
        return folder
    name = str(name_or_folder)
    if name.endswith(GGUF) or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) or name.startswith("."):
        raise FileNotFoundError(
            f"expected a folder or a name such as openai-community/gpt2, got {name!r}; no such"
            f" {'file' if name.endswith(GGUF) else 'folder'} is there"
        )
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, allow_patterns=["*.json", "model*.safetensors"]))
    except Exception as error:
        raise ConnectionError(
            f"expected a folder or a model of the hub, got {name!r}: there is no such folder, and a download "
            f"from huggingface.co failed with {type(error).__name__}: {error}\n"
            f"without a network, give a local folder that holds {CONFIG} and {WEIGHTS}"
        ) from error
