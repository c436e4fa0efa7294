"""Links that open notebooks: a row below the title of a notebook's page, and rows below that of its chapter.

They are made from Jupyter Book's own settings in ``_config.yml``: ``repository``, where the course is
published, and ``launch_buttons: jupyterhub_url``, if there is a hub with nbgitpuller. The theme's buttons
would open the pages' sources instead, which Colab cannot read. While no owner is entered there, a row has
only the file and the commands: Colab, Binder and a hub would find nothing.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlencode

import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform

from tfbook.page_script import load_script_with

SCRIPT = Path(__file__).with_name("launch.js")
PAGE = re.compile(r"book/(notebook_)?((\d\d)_\w+)")
REPOSITORY = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)/?")
NO_HUB = "https://nbgitpuller.readthedocs.io/en/latest/link.html"
"""nbgitpuller's own page, where a reader completes a link with the address of a hub."""
NOBODY = "/your_name/"
"""The owner in the course's settings until the teacher enters one."""


def links(url: str, branch: str, path: str, hub: str = "") -> dict[str, str]:
    """The addresses that open a notebook of the repository, by the name of what opens it; none for NOBODY.

    Args:
        url: the repository on GitHub, from which Colab and Binder take notebooks.
        branch: one of its branches.
        path: the notebook in it.
        hub: a JupyterHub with nbgitpuller; without one the reader is asked for it.

    Raises:
        ValueError: the address is no repository's on GitHub.

    >>> links("https://github.com/ada/course", "main", "notebooks/a/a.ipynb")["Colab"]
    'https://colab.research.google.com/github/ada/course/blob/main/notebooks/a/a.ipynb'
    >>> links("https://github.com/your_name/course", "main", "notebooks/a/a.ipynb")
    {}
    """
    found = REPOSITORY.fullmatch(url)
    if not found:
        raise ValueError(f"expected https://github.com/OWNER/REPOSITORY, got {url!r}")
    if NOBODY in url:
        return {}
    owner, name = found[1], found[2].removesuffix(".git")
    pulled = {"repo": url, "branch": branch, "urlpath": f"lab/tree/{name}/{path}"}
    puller = f"{hub.rstrip('/')}/hub/user-redirect/git-pull" if hub else NO_HUB
    return {
        "Colab": f"https://colab.research.google.com/github/{owner}/{name}/blob/{branch}/{path}",
        "Binder": f"https://mybinder.org/v2/gh/{owner}/{name}/{branch}?{urlencode({'labpath': path})}",
        "JupyterHub": f"{puller}?{urlencode(pulled)}",
    }


def commands(url: str, branch: str, notebook: str) -> str:
    """What to type for JupyterLab on one's own machine.

    >>> print(commands("https://github.com/ada/course", "main", "ch02_qkv"))
    $ git clone --branch main https://github.com/ada/course
    $ cd course
    $ make lab NOTEBOOK=ch02_qkv

    A course that is published nowhere cannot be cloned; its reader has the folder:

    >>> print(commands("https://github.com/your_name/course", "main", "ch02_qkv"))
    $ cd course
    $ make lab NOTEBOOK=ch02_qkv
    """
    folder = url.rstrip("/").removesuffix(".git").rpartition("/")[2]
    clone = "" if NOBODY in url else f"$ git clone --branch {branch} {url}\n"
    return f"{clone}$ cd {folder}\n$ make lab NOTEBOOK={notebook}"


def notebooks_of(page: str, root: Path) -> list[str]:
    """Return the notebooks that a page of the book at `root` links: its own, or all of its chapter."""
    found = PAGE.fullmatch(page)
    if found is None:
        return []
    folders = (root / "notebooks").glob(f"ch{found[2]}" if found[1] else f"ch{found[3]}_*")
    names = sorted(folder.name for folder in folders)
    return [name for name in names if (root / _path(name)).is_file()]  # a new chapter may have none yet


def _path(notebook: str) -> str:
    return f"notebooks/{notebook}/{notebook}.ipynb"


class AddLinks(SphinxTransform):
    """Puts the rows below the title, before Sphinx looks for the files that a page offers."""

    default_priority = 400

    def apply(self) -> None:
        root = Path(self.env.srcdir)
        title = next(self.document.findall(nodes.title), None)
        names = notebooks_of(self.env.docname, root) if title is not None else []
        for name in reversed(names):
            row = self._row(name, _path(name))
            if len(names) > 1:
                first_cell = json.loads((root / _path(name)).read_text("utf8"))["cells"][0]
                heading = "".join(first_cell["source"]).partition("\n")[0].lstrip("# ")
                row.insert(0, _item(nodes.inline("", heading)))
            title.parent.insert(1, row)

    def _row(self, notebook: str, path: str) -> nodes.bullet_list:
        settings = yaml.safe_load((Path(self.env.srcdir) / "_config.yml").read_text("utf8"))
        try:
            url, branch = settings["repository"]["url"], settings["repository"]["branch"]
            elsewhere = links(url, branch, path, settings["launch_buttons"]["jupyterhub_url"])
        except (KeyError, TypeError, ValueError) as error:
            raise ExtensionError(f"_config.yml, repository and launch_buttons: {error!r}") from error
        row = nodes.bullet_list(classes=["tf-launch"])
        row += _item(self._download(path))
        row += self._on_this_machine(commands(url, branch, notebook))
        for name, address in elsewhere.items():
            row += _item(nodes.reference("", name, refuri=address, internal=False))
        return row

    def _download(self, path: str) -> addnodes.download_reference:
        link = addnodes.download_reference(
            "", refdoc=self.env.docname, reftarget=f"/{path}", reftype="download"
        )
        link += nodes.inline("", "Download the notebook")
        return link

    def _on_this_machine(self, typed: str) -> nodes.list_item:
        box = nodes.list_item()
        box += nodes.raw("", "<details><summary>JupyterLab</summary>", format="html")
        box += nodes.literal_block(typed, typed, language="console")
        box += nodes.raw("", "</details>", format="html")
        return box


def _item(link: nodes.Node) -> nodes.list_item:
    return nodes.list_item("", nodes.paragraph("", "", link))


def _is_row(node: nodes.Node) -> bool:
    return isinstance(node, nodes.bullet_list) and "tf-launch" in node["classes"]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(AddLinks)
    load_script_with(app, SCRIPT, _is_row)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
