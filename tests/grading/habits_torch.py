"""How people write the chapters from the fourth on."""

from habits import Habit, answers_of, code
from honest_cells import NOTEBOOK, PYTHON, WORDS

from autograder.proof.samples.notebooks import written_cells


def trains_less(notebook):
    """Fewer steps of training, on a slow laptop."""
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        cell["source"] = source.replace("range(200)", "range(20)").replace(
            "num_steps, curve = 1400", "num_steps, curve = 40"
        )


def words_as_comments(notebook):
    """The written answer as comments in a code cell, and less training."""
    trains_less(notebook)
    for cell in written_cells(notebook):
        cell |= {"cell_type": "code", "outputs": [], "execution_count": None}
        cell["source"] = "".join(f"# {line}\n" for line in "".join(cell["source"]).splitlines())


def words_as_raw(notebook):
    """The written answer in a raw cell."""
    for cell in written_cells(notebook):
        cell["cell_type"] = "raw"


def half_deleted(notebook):
    """The imports broken in the middle, and torn copies of the answers."""
    first = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    first["source"] = "".join(first["source"])[:-9] + "\nTODO: tidy up"
    notebook["cells"] += [
        code("".join(cell["source"])[:-40].replace("def ", "def old_")) for cell in answers_of(notebook)
    ]


EINOPS = Habit(
    "einops with its layers",
    "ch04_multi_head",
    first="""
import einops
from einops import einsum, rearrange, reduce, repeat
from einops.layers.torch import Rearrange
from jaxtyping import Bool, Float
---
!pip install -q einops jaxtyping
""",
    answers={
        "split_heads": """
def split_heads(x: Float[torch.Tensor, "batch time width"], num_heads: int):
    if x.shape[-1] % num_heads != 0:
        raise ValueError("heads!")
    return rearrange(x, "b t (h d) -> b h t d", h=num_heads)
""",
        "merge_heads": "merge_heads = Rearrange('b h t d -> b t (h d)')",
        "MultiHeadAttention": """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, bias: bool = True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model=} {num_heads=}")
        self.num_heads = num_heads
        for name in ("W_q", "W_k", "W_v", "W_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=bias))

    def forward(self, x, memory=None, mask: Bool[torch.Tensor, "..."] | None = None):
        memory = x if memory is None else memory
        source = {"W_q": x, "W_k": memory, "W_v": memory}
        q, k, v = (split_heads(getattr(self, name)(given), self.num_heads) for name, given in source.items())
        scores = einsum(q, k, "b h i d, b h j d -> b h i j") / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1)
        weights = weights if mask is None else weights * mask
        return self.W_o(merge_heads(einsum(weights, v, "b h i j, b h j d -> b h i d")))
""",
        "repeat_kv": """
def repeat_kv(x, num_groups):
    return repeat(x, "b h t d -> b (h g) t d", g=num_groups)
""",
    },
)

GETATTR = Habit(
    "a configuration object, loops over getattr, parts in classes of their own",
    "ch04_multi_head",
    first="""
import logging
from types import SimpleNamespace

logging.basicConfig(level="WARNING")
log = logging.getLogger("attention")
CONFIG = SimpleNamespace(names=("q", "k", "v", "o"), fill=-1e9)


class Projections(nn.Module):
    def made(self, d_model, bias):
        for name in CONFIG.names:
            self.add_module(f"W_{name}", nn.Linear(d_model, d_model, bias))
""",
    answers={
        "MultiHeadAttention": """
class MultiHeadAttention(Projections):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model must be a multiple of num_heads")
        self.num_heads = num_heads
        self.made(d_model, bias)
        log.info("made %s", self)

    def project(self, **given):
        return [split_heads(getattr(self, f"W_{name}")(x), self.num_heads) for name, x in given.items()]

    def forward(self, x, memory=None, mask=None):
        memory = memory if memory is not None else x
        q, k, v = self.project(q=x, k=memory, v=memory)
        if mask is not None:
            mask = mask.expand(*mask.shape[:-2], q.shape[-2], k.shape[-2])
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        if mask is not None:
            out = torch.where(mask.any(-1, keepdim=True), out, torch.zeros_like(out))
        return self.W_o(merge_heads(out))

    def extra_repr(self):
        return f"num_heads={self.num_heads}"
print(MultiHeadAttention(8, 2))
MultiHeadAttention(8, 2).cuda()
""",
    },
    last=PYTHON,
)

NUMPY_HABITS = Habit(
    "numpy inside, einops outside, plots in between",
    "ch05_positions",
    first="plt.style.use('ggplot')\nplt.rcParams.update({'axes.grid': True})\n---\nimport seaborn as sns",
    answers={
        "sinusoidal_encoding": """
def sinusoidal_encoding(max_seq_len, d_model):
    if d_model & 1:
        raise ValueError("odd")
    pos, i = np.meshgrid(np.arange(max_seq_len), np.arange(d_model // 2), indexing="ij")
    angle = pos / np.power(10_000, 2 * i / d_model)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(max_seq_len, d_model)


plt.imshow(sinusoidal_encoding(32, 16))
plt.gca().add_patch(plt.Rectangle((0, 0), 3, 3, fill=False))
plt.colorbar()
plt.show()
""",
        "shift_matrix": """
def shift_matrix(k, d_model):
    def block(i):
        a = k * 10000 ** (-2 * i / d_model)
        return np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]])

    from scipy.linalg import block_diag

    return block_diag(*map(block, range(d_model // 2)))
""",
        "alibi_bias": """
def get_slopes(n):
    if math.log2(n).is_integer():
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]
    closest = 2 ** math.floor(math.log2(n))
    return get_slopes(closest) + get_slopes(2 * closest)[0::2][: n - closest]
---
def alibi_bias(num_heads, q_len, k_len):
    q = torch.arange(k_len - q_len, k_len).unsqueeze(1)
    return torch.tensor(get_slopes(num_heads)).view(-1, 1, 1) * -(q - torch.arange(k_len)).abs()
""",
    },
    change=words_as_raw,
)

HALF_DELETED = Habit("cells that were half deleted", "ch05_positions", first=WORDS, afterwards=half_deleted)

MIXIN_BLOCKS = Habit(
    "blocks out of mixins, functions out of closures",
    "ch06_blocks",
    first="""
class Residual:
    def residual(self, x, sublayer, norm=None, **kwargs):
        return x + sublayer(norm(x) if norm else x, **kwargs)


def make_ffn(d_model, d_ff):
    return nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
---
%timeit -n 1 -r 1 make_ffn(8, 32)
""",
    answers={
        "layer_norm": """
def make_norm(centre, default):
    def norm(x, weight, bias=None, eps=default):
        x = x - x.mean(-1, keepdim=True) if centre else x
        y = x / (x.square().mean(-1, keepdim=True) + eps) ** 0.5 * weight
        return y if bias is None else y + bias

    return norm


layer_norm = make_norm(True, 1e-5)
""",
        "rms_norm": """
def rms_norm(x, weight, eps=1e-6):
    return make_norm(False, eps)(x, weight, eps=eps)
""",
        "swiglu": "swiglu = lambda x, W_g, W_u, W_d: (nn.SiLU()(x @ W_g) * (x @ W_u)) @ W_d",
        "TransformerBlock": """
class TransformerBlock(Residual, nn.Module):
    def __init__(self, d_model, num_heads, d_ff, norm="pre"):
        super().__init__()
        self.norm, self.ffn = norm, make_ffn(d_model, d_ff)
        self.attention = MultiHeadAttention(d_model, num_heads)
        for name in ("attention", "ffn"):
            setattr(self, f"norm_{name}", nn.LayerNorm(d_model))

    def forward(self, x, mask=None):
        for name, extra in (("attention", {"mask": mask}), ("ffn", {})):
            layer, norm = getattr(self, name), getattr(self, f"norm_{name}")
            if self.norm == "pre":
                x = self.residual(x, layer, norm, **extra)
            else:
                x = norm(self.residual(x, layer, **extra))
        return x
""",
    },
)

PRINTS = Habit(
    "prints, asserts, no_grad, a try with pandas",
    "ch07_causal_masking",
    first="DEBUG = False\n\ndef debug(*args):\n    if DEBUG:\n        print(*args)\n---\nimport pandas as pd",
    answers={
        "causal_mask": """
import pandas as pd
def causal_mask(q_len, k_len=None):
    if k_len is None: k_len = q_len
    mask = torch.ones((q_len, k_len), dtype=torch.bool).tril(diagonal=k_len - q_len)
    debug('mask', mask)
    assert mask.dtype == torch.bool
    return mask
pd.DataFrame(causal_mask(3).numpy())
""",
        "find_leaks": """
@torch.no_grad()
def find_leaks(model, tokens, vocab_size):
    T = tokens.shape[0]
    base = model(tokens.unsqueeze(0))
    found = []
    for j in range(1, T):
        changed = torch.where(torch.arange(T, device=tokens.device) == j, (tokens + 1) % vocab_size, tokens)
        delta = (model(changed.unsqueeze(0)) - base).abs().max(dim=-1).values.squeeze(0)
        found.extend((i, j) for i in range(j) if delta[i].item() > 1e-4)
    return set(found)
""",
    },
    change=trains_less,
)

DATACLASSES = Habit(
    "caches as dataclasses",
    "ch08_kv_cache",
    first="""
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import ClassVar


@dataclass(eq=False, repr=False)
class Shape:
    batch: int
    num_kv_heads: int
    size: int
    d_head: int
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    made: ClassVar[int] = 0

    def empty(self, n):
        shape = self.batch, self.num_kv_heads, n, self.d_head
        return torch.zeros(shape, dtype=self.dtype, device=self.device)
""",
    answers={
        "KVCache": """
class KVCache(Shape):
    def __init__(self, batch, num_kv_heads, max_len, d_head, dtype=torch.float32, device="cpu"):
        super().__init__(batch, num_kv_heads, max_len, d_head, dtype, device)
        self._store = {name: self.empty(max_len) for name in ("k", "v")}
        self.length = 0

    def __len__(self):
        return self.length

    def update(self, **given):
        raise NotImplementedError

    def update(self, k, v):
        end = len(self) + k.shape[-2]
        if end > self.size:
            raise ValueError("full")
        for name, new in zip(self._store, (k, v)):
            self._store[name][..., self.length : end, :] = new
        self.length = end
        return tuple(part[..., :end, :] for part in self._store.values())
""",
    },
    last=NOTEBOOK,
)

DEBUGGED = Habit(
    "prints of a long evening, namedtuples, tables",
    "ch08_kv_cache",
    first="""
from collections import namedtuple

Quantized = namedtuple("Quantized", ["q", "scale"])
n_calls = 0
""",
    answers={
        "quantize_kv": """
def quantize_kv(x):
    global n_calls
    n_calls += 1
    # print(x.shape, x.min(), x.max())
    scale = x.abs().max(dim=-2, keepdim=True)[0] / 127.
    safe = torch.where(scale > 0, scale, torch.ones_like(scale))
    q = torch.clip(torch.round(x / safe), -127, 127).to(torch.int8)
    assert q.shape == x.shape, (q.shape, x.shape)
    return Quantized(q, scale)
import pandas as pd
pd.set_option("display.precision", 3)
""",
    },
    last="pd.DataFrame({'calls': [n_calls]}).to_csv('calls.csv')\n---\n%debug\n---\nbreakpoint",
)

PUBLISHED = Habit(
    "a loop from the paper, with an import above it",
    "ch08_serving",
    answers={
        "speculative_accept": """
import pandas as pd

def speculative_accept(p_target, p_draft, draft_tokens, u):
    # from the paper, algorithm 1
    for i, token in enumerate(draft_tokens.tolist()):
        ratio = p_target[i, token] / p_draft[i, token]
        if not u[i] < ratio:
            residual = torch.relu(p_target[i] - p_draft[i])
            return i, residual / residual.sum()
    return len(draft_tokens), p_target[-1]
""",
    },
    last="breakpoint",
)

COMPILED = Habit(
    "tries of compilers",
    "ch06_blocks",
    first="""
@torch.compile
def twice(x):
    return 2 * x
---
@torch.jit.script
def gated(a, b):
    return a * torch.sigmoid(a) * b
---
torch.backends.cudnn.benchmark = True
torch.set_float32_matmul_precision("high")
twice(torch.ones(2)) if torch.cuda.is_available() else None
""",
    answers={
        "swiglu": "def swiglu(x, W_g, W_u, W_d):\n    return gated(x @ W_g, x @ W_u) @ W_d",
        "swiglu_hidden_size": """
def swiglu_hidden_size(d_model, multiple_of=1):
    hidden, rest = divmod(8 * d_model, 3)
    return -(-hidden // multiple_of) * multiple_of
""",
    },
)

NESTED = Habit(
    "nested functions, enumerations, generators",
    "ch09_cheaper_attention",
    first="""
from enum import Enum
from itertools import count, islice


class Mode(Enum):
    FULL = 0
    CAUSAL = 1
""",
    answers={
        "sliding_window_mask": """
def sliding_window_mask(seq_len, window):
    def band():
        for i in range(seq_len):
            yield [max(0, i - window + 1) <= j <= i for j in range(seq_len)]

    return torch.tensor(list(band()))
""",
        "route_top_k": """
def route_top_k(logits, k):
    order = logits.argsort(dim=-1, descending=True)[..., :k]
    best = logits.gather(-1, order)
    e = (best - best[..., :1]).exp()
    return e / e.sum(-1, keepdim=True), order
""",
    },
)

CAPSTONE = Habit(
    "a configuration for the model, the written answer in comments",
    "ch11_capstone",
    first="""
from dataclasses import dataclass

@dataclass
class GPTConfig:
    vocab_size: int
    d_model: int
    num_heads: int
    num_layers: int
    max_len: int
    std: float = 0.02

    @property
    def d_ff(self):
        return 4 * self.d_model
""",
    answers={
        "TinyGPT": """
class TinyGPT(nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()
        self.config = c = GPTConfig(*args, **kwargs)
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(c.vocab_size, c.d_model),
            wpe=nn.Embedding(c.max_len, c.d_model),
            h=nn.ModuleList([Block(c.d_model, c.num_heads, c.d_ff) for _ in range(c.num_layers)]),
            ln_f=nn.LayerNorm(c.d_model),
        ))
        self.apply(self._init_weights)
        print("number of parameters: %.2fK" % (sum(p.numel() for p in self.parameters()) / 1e3))

    def _init_weights(self, module):
        if isinstance(module, nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=self.config.std)

    def forward(self, tokens):
        b, t = tokens.size()
        assert t <= self.config.max_len, f"Cannot forward sequence of length {t}"
        pos = torch.arange(0, t, dtype=torch.long, device=tokens.device)
        x = self.transformer.wte(tokens) + self.transformer.wpe(pos)
        for block in self.transformer.h:
            x = block(x, mask=torch.tril(torch.ones(t, t, device=tokens.device)) == 1)
        return F.linear(self.transformer.ln_f(x), self.transformer.wte.weight)
""",
    },
    change=words_as_comments,
)

OF_TORCH = [
    EINOPS,
    GETATTR,
    NUMPY_HABITS,
    HALF_DELETED,
    MIXIN_BLOCKS,
    COMPILED,
    PRINTS,
    DATACLASSES,
    DEBUGGED,
    PUBLISHED,
    NESTED,
    CAPSTONE,
]
