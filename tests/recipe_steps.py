"""What a contributor does by each recipe of CONTRIBUTING.md: a function takes a copy of the repository."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
MATERIAL = Path(__file__).parent / "recipes"


def lay(copy: Path, recipe: str) -> None:
    """Puts the files of a recipe where they belong."""
    shutil.copytree(MATERIAL / recipe, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


def write(copy: Path, path: str, old: str, new: str) -> None:
    """Writes a row: exchanges a text that stands once in a file."""
    text = (copy / path).read_text("utf8")
    assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times"
    (copy / path).write_text(text.replace(old, new), "utf8")


def append(copy: Path, path: str, text: str) -> None:
    with (copy / path).open("a", encoding="utf8") as file:
        file.write(text)


PAGE = "book/12_sharpening.md"
EXERCISE = "autograder/exercises/ch03_scaling/sharpen.py"
MISTAKES = EXERCISE.replace(".py", "_mistakes.py")
STYLES = EXERCISE.replace(".py", "_styles.py")
ANSWER = '''def sharpen(weights, power=2.0):
    """Raise weights to a power.

    Returns:
        The new weights, in the shape of the old.
    """
    ### BEGIN SOLUTION
    raised = weights**power
    return raised / raised.sum(axis=-1, keepdims=True)
    ### END SOLUTION'''


def a_chapter(copy: Path) -> None:
    lay(copy, "chapter")
    contents = "      - file: book/11_capstone\n"
    write(copy, "book/_toc.yml", contents, contents + "      - file: book/12_sharpening\n")
    contents = "      - file: book/notebook_11_capstone\n"
    write(copy, "book/_toc.yml", contents, contents + "      - file: book/notebook_12_sharpening\n")
    row = "| **12** | [Sharpening](12_sharpening.md) | How sharp? | [Practice](notebook_12_sharpening.md) |\n"
    end = "\nEach notebook lists the points of its exercises"
    write(copy, "book/index.md", end, row + end)


def a_fork(copy: Path) -> None:
    url = "  url: https://github.com/"
    settings = (copy / "_config.yml").read_text("utf8")
    ours = next(line for line in settings.splitlines() if line.startswith(url))
    write(copy, "_config.yml", ours, url + "ada/attention")


def an_exercise(copy: Path) -> None:
    lay(copy, "exercise")
    write(copy, "book/api_numpy.md", "tfcore.scaling\n", "tfcore.scaling\ntfcore.sharpening\n")
    path = "autograder/exercises/ch03_scaling/__init__.py"
    write(copy, path, '    "scale_for_unit_variance",\n', '    "scale_for_unit_variance",\n    "sharpen",\n')
    path = copy / "solutions" / "ch03_scaling" / "ch03_scaling.ipynb"
    notebook = json.loads(path.read_text("utf8"))
    text = {"cell_type": "markdown", "id": "sharpen-idea", "source": "## Sharper", "metadata": {}}
    code = {"cell_type": "code", "id": "sharpen-answer", "source": ANSWER, "metadata": {}}
    at = next(place for place, cell in enumerate(notebook["cells"]) if cell["id"] == "picture-idea")
    folded = "<details><summary>Stuck: rows that do not sum to 1</summary>\n\nDivide last.\n</details>"
    helps = {"cell_type": "markdown", "id": "sharpen-help", "source": folded, "metadata": {}}
    notebook["cells"][at:at] = [text, {**code, "outputs": [], "execution_count": None}, helps]
    path.write_text(json.dumps(notebook), "utf8")


def a_misconception(copy: Path) -> None:
    append(
        copy,
        MISTAKES,
        """

@EXERCISE.misconception("You take a root where you should take a power: the exponent is `power` itself.")
def a_root(weights, power=2.0):
    raised = weights ** (1 / power)
    return raised / raised.sum(axis=-1, keepdims=True)
""",
    )


def an_accepted_style(copy: Path) -> None:
    append(
        copy,
        STYLES,
        """

@EXERCISE.style("relative to the largest weight")
def relative(weights, power=2.0):
    raised = (weights / weights.max(axis=-1, keepdims=True)) ** power
    return raised / np.einsum("...i->...", raised)[..., None]
""",
    )


def a_widget(copy: Path) -> None:
    lay(copy, "widget")
    shown = "```{anywidget} sharpness\n:alt: Four bars, the first of them above one half.\n```\n"
    write(copy, PAGE, "## Check yourself\n", f"## Try it\n\n{shown}\n## Check yourself\n")
    path = copy / "solutions" / "ch12_sharpening" / "ch12_sharpening.ipynb"
    notebook = json.loads(path.read_text("utf8"))
    source = 'from tfwidgets import show\n\nshow("sharpness")'
    cell = {"cell_type": "code", "id": "widget-11", "metadata": {}, "source": source}
    notebook["cells"].append({**cell, "outputs": [], "execution_count": None})
    path.write_text(json.dumps(notebook), "utf8")


def a_prediction(copy: Path) -> None:
    question = ":::{predict} Does a power of 2 make the row sharper?\n:choices: yes | no\nIt does.\n:::\n\n"
    write(copy, PAGE, "## Measured\n", f"{question}## Measured\n")


def a_quiz_question(copy: Path) -> None:
    append(
        copy,
        PAGE,
        """
```{quiz}
question: What does a power of 0 make of the weights?
options:
  - text: A uniform row.
    right: true
    why: Each weight to the power 0 is 1.
  - text: A single one.
    why: That is the limit of a large power. A power of 0 forgets all differences.
```
""",
    )


def a_claim(copy: Path) -> None:
    append(
        copy,
        "book/claims.md",
        """
```{claim}
claim: Squared weights attend to one key only.
verdict: does not hold
found: The largest of four weights becomes {number}`12_sharpening.largest_squared:.3f`.
tested: "{numref}`fig-sharpened`"
said: "folklore"
```
""",
    )


def an_attack(copy: Path) -> None:
    table = "ON_FILES = (\n"
    row = '    reading("reads the groups of accounts", \'"/etc/group"\'),\n'
    write(copy, "autograder/proof/attacks/on_files.py", table, table + row)
    attempt(copy, "reads_the_groups", 'open("/etc/group").read()')


def attempt(copy: Path, name: str, expression: str) -> None:
    """Adds what no code may be able to do: a function, and its name to the table of them."""
    table = "ATTEMPTS: tuple[Callable[[Target], Any], ...] = (\n"
    function = f'def {name}(target: Target) -> Any:\n    """Tries it."""\n    return {expression}\n\n\n'
    write(copy, "autograder/cage/attempts.py", table, f"{function}{table}    {name},\n")


def a_probe(copy: Path) -> None:
    table = "PROBES: dict[str, Callable[..., Any]] = {\n"
    function = """def again(function: Candidate, *args: Any, **kwargs: Any) -> Any:
    \"""What a second call with the same arguments gives.\"""
    function(*args, **kwargs)
    return function(*args, **kwargs)


"""
    write(copy, "autograder/cage/probes.py", table, function + table)
    write(copy, "autograder/cage/probes.py", "        call,\n", "        call,\n        again,\n")
    case = '    yield Case("one row of 3 weights", (weights(rng, 3),))\n'
    row = '    yield Case("2 rows, asked for again", (weights(rng, 2, 3),), probe="again")\n'
    write(copy, EXERCISE, case, case + row)
    append(
        copy,
        MISTAKES,
        """

@EXERCISE.misconception("`weights **= power` writes into the caller's array. Make a new one.")
def changed_in_place(weights, power=2.0):
    weights **= power
    return weights / weights.sum(axis=-1, keepdims=True)
""",
    )


def a_variation(copy: Path) -> None:
    path = copy / "solutions" / "ch12_sharpening" / "ch12_sharpening.ipynb"
    notebook = json.loads(path.read_text("utf8"))
    source = "By hand: 0.75 and 0.25 are squared.\n\n<!-- varies squares\n0.75 and 0.25 | 0.8 and 0.2\n-->"
    notebook["cells"].append({"cell_type": "markdown", "id": "by-hand", "metadata": {}, "source": source})
    path.write_text(json.dumps(notebook), "utf8")


def a_fault(copy: Path) -> None:
    """Two faults, of which nobody looks for the second; the others are left out, since they take minutes."""
    path = copy / "tests" / "tfcore" / "mutants.py"
    rows = """ROWS = [
    ("heads in the opposite order", "layers.heads:repeat_kv", "dim=1)", "dim=1).flip(1)"),
    ("the columns sharpened", "sharpening:sharpen", "axis=-1", "axis=0"),
]
"""
    text = re.sub(
        r"^ROWS = \[\n.*?^\]\n", rows.replace("\\", r"\\"), path.read_text("utf8"), flags=re.M | re.S
    )
    path.write_text(text, "utf8")


def a_family_of_checkpoints(copy: Path) -> None:
    lay(copy, "family")
    sizes = '{"vocab_size": VOCAB, "n_embd": D_MODEL, "n_layer": LAYERS, "n_head": 4, "n_positions": 29}'
    classes = '"model": "OpenAIGPTLMHeadModel", "config": "OpenAIGPTConfig"'
    table = "ROWS: dict[str, dict[str, Any]] = {\n"
    row = f'    "openai-gpt": {{{classes}, "fields": {sizes}}},\n'
    write(copy, "tests/tfcore/family_specs.py", table, table + row)


def a_platform(copy: Path) -> None:
    """One that puts a word and the login before the name of each file."""
    before = '        Format(\n            "github",\n'
    row = """        Format(
            "abacus",
            "no documentation: this platform does not exist",
            r"abacus~(?P<name>[^/~]+)~(?P<file>[^/]+)",
            _only_name,
        ),
"""
    write(copy, "autograder/platforms/formats.py", before, row + before)
    makers = "MAKERS = {\n"
    maker = '''def abacus(uploads):
    """No platform: a word and the login before the name of each file."""
    made = Made()
    for upload in uploads:
        made.files[f"abacus~{upload.person.login}~{upload.name}"] = upload.data
        made.whose[upload.person] = upload.person.login
    return made


'''
    archives = "tests/grading/platform_archives.py"
    write(copy, archives, makers, f'{maker}{makers}    "abacus": abacus,\n')
    write(copy, "autograder/commands/collect.py", 'help="blackboard, ', 'help="abacus, blackboard, ')


def a_dependency(copy: Path) -> None:
    """Two, of which the second is pinned nowhere."""
    table = "dependencies = [\n"
    rows = '    "Pygments>=2",  # colours code\n    "no-such-package>=1",  # does nothing\n'
    write(copy, "pyproject.toml", "\n" + table, "\n" + table + rows)


STEPS = (
    a_chapter,
    a_fork,
    an_exercise,
    a_misconception,
    an_accepted_style,
    a_widget,
    a_quiz_question,
    a_prediction,
    a_claim,
    an_attack,
    a_probe,
    a_variation,
    a_fault,
    a_platform,
    a_family_of_checkpoints,
    a_dependency,
)


def small(copy: Path) -> None:
    """Leaves of the book the new pages, and what they need."""
    kept = {"book/12_sharpening", "book/notebook_12_sharpening", "book/claims", "book/bibliography"}
    toc = copy / "book" / "_toc.yml"
    contents = yaml.safe_load(toc.read_text("utf8"))
    for part in contents["parts"]:
        part["chapters"] = [entry for entry in part["chapters"] if entry["file"] in kept]
    contents["parts"] = [part for part in contents["parts"] if part["chapters"]]
    toc.write_text(yaml.safe_dump(contents, sort_keys=False), "utf8")
    index = copy / "book" / "index.md"
    rows = re.findall(r"^(?:\| No|\|--|.*12_sharpening).*\n", index.read_text("utf8"), re.M)
    index.write_text("".join(["# The course\n\n", *rows]), "utf8")
    claims = copy / "book" / "claims.md"
    of_others = r"^```\{claim\}\n(?:(?!12_sharpening).)*?^```\n"
    claims.write_text(re.sub(of_others, "", claims.read_text("utf8"), flags=re.M | re.S), "utf8")
