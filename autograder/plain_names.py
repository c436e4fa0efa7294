"""The names that plain code may use, and those that no answer needs; `plain` reads a submission by them."""

from __future__ import annotations

import functools
import importlib
import inspect
import operator
import pkgutil
import re
import textwrap
import types
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from autograder import open_modules

PARTS = {
    "IPython.display": "HTML Image Latex Markdown Math clear_output display",
    "__future__": "annotations division print_function",
    "abc": "ABC abstractmethod",
    "asyncio": "create_task gather get_event_loop run sleep to_thread wait_for",
    "autograder": "check",
    "bisect": "bisect bisect_left bisect_right insort",
    "collections": "ChainMap Counter OrderedDict UserDict UserList defaultdict deque namedtuple",
    "collections.abc": "Callable Generator Hashable Iterable Iterator Mapping MutableMapping Sequence Set "
    "Sized",
    "concurrent.futures": "ProcessPoolExecutor ThreadPoolExecutor as_completed wait",
    "contextlib": "ExitStack closing contextmanager nullcontext suppress",
    "copy": "copy deepcopy",
    "dataclasses": "asdict astuple dataclass is_dataclass replace",
    "datetime": "date datetime timedelta timezone",
    "decimal": "Decimal getcontext",
    "einops": "einsum pack rearrange reduce repeat unpack",
    "faulthandler": "disable enable",
    "fractions": "Fraction",
    "functools": "cache cached_property cmp_to_key lru_cache partial partialmethod reduce total_ordering "
    "wraps",
    "gc": "collect",
    "glob": "glob iglob",
    "google.colab": "drive files output",
    "heapq": "heapify heappop heappush heappushpop heapreplace merge nlargest nsmallest",
    "inspect": "getsource signature",
    "io": "BytesIO StringIO",
    "ipywidgets": "Checkbox Dropdown FloatSlider IntSlider interact interactive",
    "json": "JSONDecodeError dump dumps load loads",
    "matplotlib.pyplot.cm": "Blues Greens RdBu Reds coolwarm get_cmap inferno magma plasma tab10 viridis",
    "matplotlib.pyplot.style": "available context use",
    "numbers": "Integral Number Rational Real",
    "numpy.lib.stride_tricks": "sliding_window_view",
    "numpy.testing": "assert_allclose assert_almost_equal assert_array_equal assert_equal",
    "operator": "add and_ floordiv ge getitem gt itemgetter le lt mul neg or_ sub truediv xor",
    "os": "_exit cpu_count environ getcwd getenv getpid listdir makedirs mkdir remove rename sep system "
    "urandom walk",
    "os.path": "abspath basename dirname exists expanduser getsize isdir isfile join splitext",
    "pathlib": "Path PurePath",
    "platform": "machine platform processor python_version system",
    "pprint": "pformat pprint",
    "random": "Random choice choices gauss getrandbits normalvariate randint random randrange sample seed "
    "shuffle uniform",
    "re": "DOTALL IGNORECASE MULTILINE Match Pattern VERBOSE compile escape findall finditer fullmatch "
    "match search split sub",
    "scipy.stats": "chi2 entropy kstest norm t uniform",
    "shutil": "copy copyfile copytree move rmtree which",
    "statistics": "fmean mean median pstdev pvariance stdev variance",
    "string": "Template ascii_letters ascii_lowercase ascii_uppercase digits punctuation whitespace",
    "struct": "calcsize pack unpack",
    "subprocess": "CalledProcessError DEVNULL PIPE Popen STDOUT call check_call check_output getoutput run",
    "sys": "argv byteorder executable exit float_info float_repr_style getrecursionlimit getsizeof "
    "maxsize path platform setrecursionlimit stderr stdout version version_info",
    "tempfile": "NamedTemporaryFile TemporaryDirectory TemporaryFile gettempdir mkdtemp",
    "textwrap": "dedent fill indent shorten wrap",
    "tfcore.data": "Adding BOS BRACKETS Brackets Classification EOS FIRST_SYMBOL IGNORE Induction "
    "LanguageModeling NO_NOUN OTHER_NOUN PAD REFERENT Sentence SequenceToSequence Split "
    "TARGET_VOCABULARY Tagging VOCABULARY WordVocabulary adding_batch answer_batch "
    "bracket_batch classification_batch copy_batch draw fault induction_batch is_novel "
    "language_modeling_batch minimal_pairs num_sentences pad pair_depths parse "
    "reversal_batch sentences show_brackets split_sentences tagging_batch translate "
    "translation_batch",
    "tfwidgets": "show",
    "threading": "Lock Thread",
    "timeit": "default_timer",
    "torch.amp": "GradScaler autocast",
    "torch.backends.mps": "is_available is_built",
    "torch.func": "functional_call grad jacfwd jacrev jvp vjp vmap",
    "torch.testing": "assert_close",
    "tqdm": "tqdm trange",
    "tqdm.auto": "tqdm trange",
    "tqdm.notebook": "tqdm trange",
    "traceback": "format_exc print_exc",
    "types": "FunctionType MethodType NoneType",
    "typing": "Any Callable ClassVar Dict Final Generator Generic Iterable Iterator List Literal Mapping "
    "NamedTuple Optional Protocol Sequence Set TYPE_CHECKING Tuple Type TypeAlias TypeVar Union "
    "overload",
    "warnings": "catch_warnings filterwarnings simplefilter warn",
}
"""Of these modules, only these names."""

ABSENT = ("autograder", "tfcore")
"""Not there where work is graded, but for `check` and the data; to call them is forbidden, and told."""

READERS = {"eval", "exec", "compile", "vars", "globals", "locals", "delattr", "breakpoint", "__import__"}
"""Builtins that make code or attributes of text."""
INSIDES = {"get_ipython", "exit", "quit", "memoryview", "__builtins__", "__loader__", "__spec__"}
"""Names that a notebook has without an import, and that lead to its shell, to modules or to bare memory."""
BY_TEXT = {"getattr", "setattr", "open"}
"""Builtins that are plain where the text stands there."""

FRAMES = {
    name
    for kind in (
        *(types.FrameType, types.TracebackType, types.CodeType),
        *(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType),
    )
    for name in dir(kind)
    if re.match(r"(ag|co|cr|f|gi|tb)_", name)
}
TAKEN = {"os", "sys", "gc", "builtins", "bltns", "ctypes", "importlib", "inspect", "threading"}
RESERVED = (
    FRAMES
    | TAKEN
    | {
        *(
            "FileIO",
            "ForwardRef",
            "annotation",
            "return_annotation",
            "cast",
            "cffi",
            "fdopen",
            "from_buffer",
            "frombuffer",
            "func",
            "get_field",
            "get_type_hints",
            "grad_fn",
            "mro",
            "obj",
            "open",
            "readinto",
            "readinto1",
            "register",
        ),
    }
)
"""No attribute of these names is asked for, whatever it is asked of, but a module that may be used."""
CAREFUL: dict[str, tuple[int, set[str | None]]] = {
    "inspect.signature": (1, set()),
    "numpy.load": (2, {"mmap_mode"}),
    "torch.compile": (1, {"dynamic", "fullgraph", "mode"}),
    "torch.load": (2, {"map_location"}),
}
"""Functions that run a text, or what a file holds, where they are told to: they are called at once, with so
many arguments and those by name."""
DECORATES = "functools.wraps"
"""Writes to the function that it is given: plain above a definition, and nowhere else."""
UNPACKING = {"matplotlib.pyplot.switch_backend", "torch.get_device_module"}
"""Functions that run what a text names, or give a module."""

HONEST = {
    *(name for kind in (int, list, dict, str) for name in dir(kind) if name.startswith("__")),
    *(
        "__array__",
        "__bool__",
        "__call__",
        "__enter__",
        "__exit__",
        "__file__",
        "__matmul__",
    ),
    *("__module__", "__name__", "__next__", "__post_init__", "__qualname__", "__version__"),
} - {
    *("__delattr__", "__getattribute__", "__getstate__", "__init_subclass__", "__reduce__", "__reduce_ex__"),
    *("__setattr__", "__subclasshook__"),
}
"""Attributes with two underscores that lead nowhere."""
GIVEN = HONEST | {"__all__", "__author__", "__slots__"}
"""Those that a notebook may give to something of its own. Others speak to a library: numpy takes what is said
by ``__array_interface__``, or by ``__getattr__`` for it, for a place in the memory. ``__del__`` runs at any
time."""
OVER_MEMORY = {
    f"numpy.{name}"
    for name in ("chararray", "ma.MaskedArray", "ma.masked_array", "matrix", "memmap", "ndarray", "recarray")
}
"""Classes that take bytes for what they are told, also for places of objects: asked about, never called."""
INHERITED = (
    *("abc.ABC", "collections.", "tfcore.", "torch.autograd.Function", "torch.nn.", "torch.optim."),
    *("torch.utils.data.", "typing."),
)
"""What begins so a class may inherit from. Others do what the text in their attributes says."""
MIXED_IN = {"abc.ABC", "typing.Generic", "typing.Protocol"}
"""What a class may have beside another base. With more it may be two things at once, a module and a dict."""

PUBLIC = {"_asdict", "_exit", "_fields", "_replace"}
"""Names with an underscore that are meant for use."""

SWITCHES = ("torch.backends.",)
"""What libraries have to be set."""
ENVIRONMENT = "os.environ"
SETTINGS = {
    *("CUBLAS_WORKSPACE_CONFIG", "CUDA_LAUNCH_BLOCKING", "CUDA_VISIBLE_DEVICES", "HF_HOME"),
    *("KMP_DUPLICATE_LIB_OK", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    *("PYTHONHASHSEED", "PYTORCH_ENABLE_MPS_FALLBACK", "TF_CPP_MIN_LOG_LEVEL", "TOKENIZERS_PARALLELISM"),
}
"""Variables of the environment that may be set; by others torch loads code, and matplotlib imports it."""


@cache
def _inner() -> dict[str, frozenset[str]]:
    """The modules that may be used, each with those of its names that are modules and may not."""
    return {name: frozenset(inner.split()) for name, inner in open_modules.OPEN.items()}


@cache
def _ways() -> frozenset[str]:
    """What stands before the last dot of a module that may be used: ``torch.utils`` for its ``data``."""
    names = [*_inner(), *PARTS]
    return frozenset(name.rsplit(".", n)[0] for name in names for n in range(1, name.count(".") + 1))


def roots() -> list[str]:
    """The packages that may be used."""
    return sorted({name.partition(".")[0] for name in (*_inner(), *PARTS)})


def is_module(dotted: str) -> bool:
    return dotted in _inner() or dotted in PARTS or dotted in _ways()


def beyond(dotted: str) -> str | None:
    """The part of a dotted name, from the module it begins with, that leaves what may be used."""
    root, *rest = dotted.split(".")
    if root in ABSENT and not dotted.startswith("tfcore.data"):
        return None
    at = root
    for name in rest:
        reached = f"{at}.{name}"
        if at in PARTS and not is_module(reached):
            return None if name in PARTS[at].split() else reached
        if reached in UNPACKING or name in _inner().get(at, ()):
            return reached
        if not is_module(reached):
            return reached if at not in _inner() else None
        at = reached
    return None if is_module(root) else root


GADGETS: tuple[Any, ...] = (
    *(operator.attrgetter, operator.methodcaller, functools.wraps, functools.update_wrapper),
    *(functools.singledispatch, functools.partial, typing.get_type_hints, inspect.signature),
    *(importlib.import_module, getattr, setattr, eval, exec, compile, vars, globals, __import__),
)
"""Whoever has one asks for attributes by a text, or runs it."""
RUNS_FILES = "PytestTester"
"""What ``np.test`` is."""


def inner_modules(name: str) -> set[str]:
    """The public names of a module that are other modules, as it is here, or gadgets, and may not be used."""
    module = importlib.import_module(name)
    files = [one.name for one in pkgutil.iter_modules(getattr(module, "__path__", ()))]
    found = {key: getattr(module, key, module) for key in (*dir(module), *files) if not key.startswith("_")}
    modules = {key for key, of in found.items() if isinstance(of, types.ModuleType)}
    gadgets = {
        key
        for key, of in found.items()
        if any(of is gadget for gadget in GADGETS) or type(of).__name__ == RUNS_FILES
    }
    return gadgets | {key for key in modules if not is_module(f"{name}.{key}")}


def _table() -> Iterator[str]:
    """The file of `open_modules`, with all that it says and all that is here."""
    yield from (f'"""{open_modules.__doc__}"""', "", "OPEN = {")
    for name, known in open_modules.OPEN.items():
        told = " ".join(sorted(inner_modules(name).union(known.split())))
        first, *rest = textwrap.wrap(told, 98 - len(name)) or [""]
        yield f'    "{name}": "{first}' + "".join(f' "\n    "{more}' for more in rest) + '",'
    yield "}\n"


if __name__ == "__main__":
    Path(open_modules.__file__).write_text("\n".join(_table()), "utf8")
