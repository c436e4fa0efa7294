"""Everyday cells of honest notebooks, many of which fail where the work is graded. None may cost anything."""

SEPARATOR = "\n---\n"

IMPORTS = r"""
from dataclasses import dataclass, field
---
from enum import Enum, auto
---
import logging
log = logging.getLogger(__name__)
logging.basicConfig(level=logging.INFO)
---
import pandas as pd
pd.DataFrame({'d_k': [4, 8]}).describe()
---
import seaborn as sns
sns.set_theme()
---
import sklearn
from sklearn.metrics import accuracy_score
---
from numpy import *
---
from math import *
---
import pickle
pickle.loads(pickle.dumps([1]))
---
import unittest
unittest.main(argv=[''], exit=False)
---
import doctest
doctest.testmod()
---
import requests
requests.get('https://example.org').text
---
import numba
@numba.njit
def fast(x):
    return x + 1
---
import transformers
transformers.AutoModel.from_pretrained('gpt2')
---
import tensorflow as tf
tf.nn.softmax([1.0, 2.0])
---
import jax.numpy as jnp
jnp.arange(3)
---
from matplotlib.patches import Rectangle
---
from matplotlib.gridspec import GridSpec
---
from mpl_toolkits.mplot3d import Axes3D
---
from einops.layers.torch import Rearrange
---
from einops import rearrange
rearrange(np.ones((2, 6)), 'b (h d) -> b h d', h=3).shape
---
from jaxtyping import Float
---
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter()
---
import wandb
wandb.init(project='attention')
---
try:
    import xformers
except ImportError:
    pass
---
try:
    from flash_attn import flash_attn_func
except Exception as error:
    print(error)
---
import scipy.special, scipy.stats
scipy.stats.norm.pdf(0)
---
from google.colab import drive
drive.mount('/content/drive')
---
import importlib, math
importlib.reload(math)
---
from collections import Counter, defaultdict, namedtuple
Point = namedtuple('Point', 'x y')
---
import typing as t
from typing import Optional, Tuple, TypeVar
T = TypeVar('T')
---
from __future__ import annotations
"""
"""Libraries, those that are not installed among them."""

PYTHON = r"""
import os
os.chdir('.')
os.makedirs('figures', exist_ok=True)
os.environ['SEED'] = '0'
---
import torch
@torch.compile
def twice(x):
    return 2 * x
---
import torch
@torch.jit.script
def halved(x):
    return x / 2
---
import torch
hasattr(torch.nn.functional, 'scaled_dot_product_attention')
---
import torch
print(torch.__version__, torch.cuda.is_available(), torch.backends.mps.is_available())
---
import torch
device = 'cuda' if torch.cuda.is_available() else 'cpu'
torch.manual_seed(0)
np.random.seed(0)
---
import torch
torch.set_default_device('cpu')
torch.set_printoptions(precision=3, sci_mode=False)
---
import torch
torch.autograd.set_detect_anomaly(False)
---
from types import SimpleNamespace
config = SimpleNamespace(d=3)
config.d += 1
---
class Layer:
    def both(self):
        return [getattr(self, name) for name in ('W_q', 'W_k')]
---
class Layer:
    def __init__(self):
        for name in 'qkv':
            setattr(self, name, 1)
Layer().q
---
class Base:
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
class Sub(Base):
    pass
---
class Both(dict, object):
    pass
Both.__mro__
---
class Registry:
    found = {}
    def __class_getitem__(cls, name):
        return cls.found[name]
---
for lib in (np, plt):
    print(lib.__name__)
---
print(vars(np.random.default_rng(0)))
---
print(list(globals())[:5])
print(len(locals()))
---
print(dir(np)[:5])
---
globals()['d_model'] = 64
print(d_model)
---
help(np.swapaxes)
---
import inspect
print(inspect.getsource(np.mean)[:80])
print(inspect.signature(np.stack))
---
import sys
print(sys.version, sys.path[:1])
sys.setrecursionlimit(5000)
---
import gc, time
gc.collect()
start = time.perf_counter()
print(time.perf_counter() - start)
---
import warnings
warnings.filterwarnings('ignore')
warnings.simplefilter('error', DeprecationWarning)
---
import traceback
try:
    1 / 0
except ZeroDivisionError:
    traceback.print_exc()
---
import copy, json
json.dumps(copy.deepcopy({'a': 1}))
---
from pathlib import Path
Path('notes.txt').write_text('d_k')
print(Path('notes.txt').read_text())
---
with open('log.csv', 'w') as file:
    file.write('1,2')
print(open('log.csv').read())
---
import random, string
random.seed(1)
print(''.join(random.choices(string.ascii_letters, k=5)))
---
from functools import lru_cache, partial, reduce, wraps
@lru_cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(10)
---
from contextlib import contextmanager
@contextmanager
def timed():
    yield
with timed():
    pass
---
import operator, itertools
list(itertools.accumulate([1, 2, 3], operator.mul))
---
eval('1 + 1')
exec('x_from_exec = 3')
print(x_from_exec)
---
from tqdm.notebook import tqdm
for _ in tqdm(range(3)):
    pass
---
np.set_printoptions(precision=3, suppress=True)
np.seterr(all='warn')
---
assert np.allclose(np.eye(2) @ np.eye(2), np.eye(2)), 'maths is broken'
---
assert 1 == 2, 'this was never true'
---
input('press enter')
---
raise SystemExit
---
x = undefined_name + 1
---
x: int = 'no'
x.shape
---
lambda: None
---
_ = [print(i) for i in range(3)]; del _
---
match 3:
    case int():
        print('a number')
---
async def wait():
    import asyncio
    await asyncio.sleep(0)
await wait()
---
breakpoint
---
...
---
NotImplemented
---
if __name__ == '__main__':
    print('main')
"""
"""Python that people write beside their answers."""

NOTEBOOK = r"""
%xmode Minimal
---
%history -n 1
---
%%writefile helper.py
x = 1
---
%load_ext tensorboard
%tensorboard --logdir runs
---
%load_ext autoreload
%autoreload 2
---
%matplotlib inline
%config InlineBackend.figure_format = 'retina'
---
%matplotlib widget
---
%%time
sum(range(1000))
---
%timeit -n 2 -r 2 sum(range(10))
---
%%capture out
print('hidden')
---
%who
%whos
---
%env SEED=1
%pwd
---
%%bash
echo done
---
%%html
<b>bold</b>
---
%%latex
$QK^T$
---
%debug
---
%pip install einops
---
!pip install einops
---
!nvidia-smi
files = !ls
---
np.swapaxes?
---
??np.mean
---
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.ast_node_interactivity = 'all'
---
from IPython.display import display, HTML, Markdown, clear_output
display(Markdown('**done**'))
clear_output()
---
get_ipython().run_line_magic('matplotlib', 'inline')
---
import ipywidgets as widgets
widgets.IntSlider()
---
In [3]: 1 + 1
---
>>> 1 + 1
2
"""
"""Magics, commands, and what is pasted out of a console."""

PLOTS = r"""
plt.style.use('seaborn-v0_8-darkgrid')
plt.rcParams['figure.dpi'] = 150
---
plt.style.use('no-such-style')
---
with plt.xkcd():
    plt.plot([1, 2, 3])
plt.show()
---
fig = plt.figure(layout='constrained')
grid = fig.add_gridspec(2, 2)
ax = fig.add_subplot(grid[0, :])
ax.add_patch(plt.Rectangle((0, 0), 1, 1, fill=False))
plt.savefig('grid.pdf')
---
from mpl_toolkits.axes_grid1 import make_axes_locatable
plt.imshow(np.eye(3), cmap='magma')
plt.colorbar()
---
fig, ax = plt.subplots(subplot_kw={'projection': '3d'})
ax.plot([1], [2], [3])
---
from matplotlib.animation import FuncAnimation
FuncAnimation(plt.figure(), lambda i: [], frames=2)
---
import plotly.express as px
px.line([1, 2])
"""
"""Pictures."""

WORDS = r'''
TODO ask in the tutorial why d_k
---
This is my answer about the rows of the picture
---
print "hello"
---
Exercise 2
----------
We multiply x by the three matrices.
---
## Softmax
**Idea**: subtract the maximum
---
The scale is $\sqrt{d_k}$, isn't it?
---
def later(x):
---
def half(x):
    y = x +
---
    indented = 1
---
if True:
print('no')
---
print('unclosed)
---
x = [1, 2
y = 3
---
Ответ: каждая строка — это веса 🙂
---
# only a comment
---
"""Notes: the rows sum to one."""
---
Traceback (most recent call last):
  File "<stdin>", line 1, in <module>
ZeroDivisionError: division by zero
---
pass
'''
"""Prose, Python 2, and cells that were half deleted or never finished."""

EMPTY = ["", "   \n\n"]

CELLS = [
    cell.strip("\n") for group in (IMPORTS, PYTHON, NOTEBOOK, PLOTS, WORDS) for cell in group.split(SEPARATOR)
] + EMPTY
