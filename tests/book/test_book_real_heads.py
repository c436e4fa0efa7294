"""The published model in the page: file, word pieces and numbers are Python's, and nothing comes unasked."""

from __future__ import annotations

import json
import random
import re
import subprocess
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stand_in
import torch
from book_paths import ROOT
from settled import settle
from tfbook import katex
from tokenizers import Tokenizer

from tfcore import zoo
from tfcore.config import AttentionConfig, BlockConfig, ModelConfig
from tfcore.models import Encoder
from tfcore.quantize import quantize_weights
from tfwidgets import model_file, real_heads

PHONE = {"width": 390, "height": 844}
ENCODER = ROOT / "book" / "tfwidgets" / "encoder.js"
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
LONG = "the dog saw the cat and the cat saw the dog and it was tired, " * 3
TEXTS = [
    stand_in.TEXT,
    "",
    "   ",
    "Naïve CAFÉ, ÉTÉ: İstanbul!",
    "zebra zzz unknown",
    "the dog 😀 [MASK] 👍🏽 saw... (it)?",
    "中文 and the dog",
    "dog\u200bs can't \ufffd\tplay-ing\n2026",
    LONG,
]
CUTS: list[list[list[int]]] = [[], [[0, 1]], [[0, 0], [1, 2], [1, 1]]]

ASK = """
import { readFileSync } from "node:fs";
import * as encoder from ENCODER;
const { file, whole, texts, asked } = JSON.parse(readFileSync(0, "utf8"));
const bytes = readFileSync(file);
const model = encoder.readModel(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
if (whole) model.max_len = 1e6;
const tokens = texts.map((text) => encoder.tokenise(text, model).tokens);
const found = asked.map((question) => encoder.analyse(model, question));
process.stdout.write(JSON.stringify({ tokens, found }));
"""


def in_node(file: Path, texts: list[str], asked: list[dict[str, Any]], whole: bool = False) -> dict[str, Any]:
    """What ``encoder.js`` makes of texts and of questions; `whole` texts are not cut off."""
    run = subprocess.run(
        [
            katex.node_binary(),
            "--input-type=module",
            "-e",
            ASK.replace("ENCODER", json.dumps(ENCODER.as_uri())),
        ],
        input=json.dumps({"file": str(file), "whole": whole, "texts": texts, "asked": asked}),
        capture_output=True,
        text=True,
        encoding="utf8",
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in's file."""
    path = tmp_path_factory.mktemp("small") / "stand_in.bin"
    path.write_bytes(stand_in.content())
    return path


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, do_without: Callable[[str, str], None]) -> Path:
    """MiniLM's file."""
    try:
        content = real_heads.file(real_heads.STATE)
    except zoo.MissingModelError as error:
        do_without("models", str(error))
    path = tmp_path_factory.mktemp("real") / "minilm.bin"
    path.write_bytes(content)
    return path


def drawn_texts(count: int) -> list[str]:
    """Random texts of characters that have had their category since Unicode 3.2, and of emoji."""
    old = unicodedata.ucd_3_2_0
    every = [chr(code) for code in range(0x30000) if not 0xD800 <= code < 0xE000]
    settled = [c for c in every if old.category(c) == unicodedata.category(c) != "Cn" and c not in "\u166d"]
    likely = [*"abcdefghij  .,;-_[]'éñüßİΣ中😀👍🏽", "\u200b", "\u0301"]
    words = ["[SEP]", "[sep]", "[MASK", "]", "the", "play", "ing", " "]
    pools = [settled[:400], settled[:3000], settled, likely, words]
    rng = random.Random(0)
    drawn = ["".join(rng.choices(rng.choice(pools), k=rng.randrange(40))) for _ in range(count)]
    return [*drawn, *(f"a{c}b" for c in settled[:: len(settled) // 10_000])]


def whole_ids(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    """Token ids of texts that are not cut off."""
    tokenizer.no_truncation()
    return [encoded.ids for encoded in tokenizer.encode_batch(texts)]


@pytest.mark.slow
def test_word_pieces_are_those_of_the_tokenizers_library(small: Path) -> None:
    texts = drawn_texts(8_000)
    expected = whole_ids(model_file.read(small.read_bytes())[1], texts)
    found = in_node(small, texts, [], whole=True)["tokens"]
    assert [text for text, ours, theirs in zip(texts, found, expected, strict=True) if ours != theirs] == []
    assert len({id for ids in found for id in ids}) > 90, "most word pieces occur"


@pytest.mark.slow
def test_the_real_word_pieces_are_those_of_the_published_tokenizer(real: Path) -> None:
    texts = drawn_texts(5_000)
    expected = whole_ids(zoo.load("minilm-l6")[1], texts)
    assert whole_ids(model_file.read(real.read_bytes())[1], texts) == expected
    assert in_node(real, texts, [], whole=True)["tokens"] == expected


def hold_to_python(file: Path, texts: list[str], cuts: list[list[list[int]]]) -> None:
    """Compare every map and cosine of JavaScript and of tfcore."""
    asked = [
        {"text": text, "other": texts[i - 1], "cut": cut} for i, text in enumerate(texts) for cut in cuts
    ]
    for question, found in zip(asked, in_node(file, [], asked)["found"], strict=True):
        silenced, state = question.pop("cut"), {"source": str(file)}
        expected = real_heads.analyse({**real_heads.STATE, **state, **question, "silenced": silenced})
        assert found["tokens"] == expected["tokens"]
        assert found["names"] == expected["names"]
        np.testing.assert_allclose(found["maps"], expected["maps"], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found["similarity"], expected["similarity"], rtol=1e-9)
        np.testing.assert_allclose(found["kept"], expected["kept"], rtol=1e-9)


@pytest.mark.slow
def test_maps_and_vectors_are_those_of_tfcore(small: Path) -> None:
    hold_to_python(small, TEXTS, CUTS)


@pytest.mark.slow
def test_the_real_maps_and_vectors_are_those_of_tfcore(real: Path) -> None:
    hold_to_python(real, [*TEXTS[:4], "The animal didn't cross the street."], [[], [[3, 1], [0, 2]]])


@pytest.mark.slow
def test_the_file_holds_the_quantised_model(small: Path) -> None:
    content = small.read_bytes()
    assert content == stand_in.content()
    model, tokenizer = model_file.read(content)
    tokens = torch.tensor([tokenizer.encode(stand_in.TEXT).ids])
    with torch.no_grad():
        expected = quantize_weights(stand_in.encoder()).double()(tokens)
    torch.testing.assert_close(model(tokens), expected)
    assert tokenizer.encode(LONG).ids[-1] == tokenizer.token_to_id("[SEP]")
    assert len(tokenizer.encode(LONG).ids) == model_file.LONGEST


def test_a_file_that_is_damaged_or_another_is_refused(small: Path) -> None:
    content = small.read_bytes()
    with pytest.raises(ValueError, match="expected content with the CRC-32"):
        model_file.read(content[:-9] + b"?" + content[-8:])
    with pytest.raises(ValueError, match="expected a file that begins with"):
        model_file.read(b"GGUF" + content[4:])


def test_a_model_of_another_kind_is_refused() -> None:
    _, tokenizer = model_file.read(stand_in.content())
    block = BlockConfig(AttentionConfig(12, 3), d_ff=20)
    other = Encoder(ModelConfig(tokenizer.get_vocab_size(), 2, block))
    with pytest.raises(ValueError, match="expected an encoder like BERT"):
        model_file.write(other, tokenizer)
    fewer = model_file._tokenizer(stand_in.PIECES[:-1])
    with pytest.raises(ValueError, match=r"expected word pieces with the ids 0 to \d+, got \d+"):
        model_file.write(stand_in.encoder(), fewer)


class Page:
    """A page with the widget, from a server or from disk, and the addresses that it asked for."""

    def __init__(self, browser: Any, address: str, **settings: Any) -> None:
        self.context = browser.new_context(**settings)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.address = address

    def open(self) -> Page:
        self.page.goto(self.address)
        self.figure = self.page.locator('.tf-widget:has([data-widget="real_heads"])')
        self.figure.scroll_into_view_if_needed()
        self.page.wait_for_selector('[data-widget="real_heads"][data-waits]')
        self.root = self.figure.locator(".tf-widget-root")
        return self

    def load(self) -> Page:
        self.root.get_by_role("button").click()
        self.page.wait_for_selector('[data-widget="real_heads"][data-values]', timeout=60_000)
        return self.settle()

    def settle(self) -> Page:
        self.page.wait_for_selector('[data-widget="real_heads"][aria-busy="false"]', timeout=60_000)
        return self

    def files(self) -> list[str]:
        return [url for url in self.requests if url.endswith(".bin")]

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.root.get_attribute("data-state"))
        return found

    def type(self, text: str, other: str | None = None) -> Page:
        self.root.get_by_label("Sentence", exact=True).fill(text)
        if other is not None:
            self.root.get_by_label("Compare to").fill(other)
        return self.settle()

    def hold(self) -> None:
        """Compare the numbers written in the widget with Python's, to the last digit."""
        found = real_heads.analyse(self.state())
        layer, head, place = (self.state()[name] for name in ("layer", "head", "place"))
        row = found["maps"][layer, head, place]
        digits = [f"{number:.3f}" for number in (*found["similarity"], found["kept"])]
        assert self.root.locator("dd").all_inner_texts() == digits
        bars = self.root.locator(".bars")
        shown = dict(
            zip(bars.locator("span").all_inner_texts(), bars.locator("b").all_inner_texts(), strict=True)
        )
        largest = sorted(row.tolist(), reverse=True)[: len(bars.locator("b").all())]
        assert bars.locator("b").all_inner_texts() == [f"{weight:.2f}" for weight in largest]
        weights = {(name, f"{w:.2f}") for name, w in zip(found["names"], row.tolist(), strict=True)}
        assert {*shown.items()} <= weights
        assert self.root.locator(".strip span").all_inner_texts() == found["names"]


@pytest.fixture(scope="session")
def small_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a page with the stand-in."""
    return stand_in.build(tmp_path_factory.mktemp("small_page"))


@pytest.fixture(scope="session")
def small_address(small_page: Path, serve: Callable[[Path], str]) -> str:
    return f"{serve(small_page)}/index.html"


@pytest.mark.browser
def test_nothing_of_the_model_comes_before_the_click(small_address: str, browser: Any) -> None:
    opened = Page(browser, small_address).open()
    settle(opened.page)
    assert opened.files() == []
    assert opened.figure.locator("img").is_visible(), "the picture stays until the model is there"
    opened.load()
    assert len(opened.files()) == 1
    assert not opened.figure.locator("img").is_visible()
    assert opened.root.locator(".strip").evaluate("node => node === document.activeElement")
    opened.context.close()


@pytest.mark.browser
def test_what_is_written_is_pythons_to_the_last_digit(small_address: str, browser: Any) -> None:
    opened = Page(browser, small_address).open().load()
    opened.hold()
    for text in TEXTS:
        opened.type(text, "the café; a dog?").hold()
        assert opened.state()["text"] == text.replace("\n", " ")  # a field has one line
    notes = opened.root.locator(".problem")
    assert "too long" in notes.inner_text()
    assert "[UNK]" in opened.type("zz").root.locator(".problem").inner_text()
    assert "Type a sentence" in opened.type(" ").root.locator(".problem").inner_text()
    assert opened.type(stand_in.TEXT).root.locator(".problem").inner_text() == ""
    opened.context.close()


@pytest.mark.browser
def test_heads_are_chosen_cut_and_put_back(small_address: str, browser: Any) -> None:
    opened = Page(browser, small_address, viewport=PHONE, has_touch=True).open().load()
    root = opened.root
    root.get_by_role("button", name="Head 0.2: previous token 0.88").tap()
    assert (opened.state()["layer"], opened.state()["head"]) == (0, 2)
    opened.page.keyboard.press("ArrowLeft")
    opened.page.keyboard.press("ArrowDown")
    assert (opened.state()["layer"], opened.state()["head"]) == (1, 1)
    assert root.get_by_role("button", name="Head 1.1: [CLS]").evaluate(
        "node => node === document.activeElement"
    )
    root.get_by_role("button", name="Cut head 1.1").tap()
    opened.settle().hold()
    assert opened.state()["silenced"] == [[1, 1]]
    assert root.get_by_role("button", name="Head 1.1: [CLS] 0.50, cut").count() == 1
    root.get_by_role("button", name="Cut all of layer 1").tap()
    opened.settle().hold()
    assert len(opened.state()["silenced"]) == 3
    root.get_by_role("button", name="Put head 1.1 back").tap()
    opened.settle()
    assert opened.state()["silenced"] == [[1, 0], [1, 2]]
    root.get_by_role("button", name="Put all back").tap()
    opened.settle().hold()
    assert root.locator("dd").all_inner_texts()[2] == "1.000"
    box = root.locator("svg").bounding_box()
    opened.page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + 2)
    assert opened.state()["place"] == 0
    opened.context.close()


def spoil(content: bytes, how: str, route: Any) -> None:
    """Answer the request for the model's file in a way that must be reported."""
    if how == "offline":
        return route.abort()
    if how == "missing":
        return route.fulfill(status=404, body="no")
    bodies = {
        "short": content[:-100],
        "long": content + b"more",
        "damaged": content[:-9] + b"?" + content[-8:],
    }
    return route.fulfill(body=bodies[how], content_type="application/octet-stream")


FAULTS = {
    "offline": "is this computer offline?",
    "missing": "no such file (it answered 404)",
    "short": r"only \d+ of \d+ bytes came",
    "long": r"more than the \d+ bytes",
    "damaged": "the file is damaged",
}


@pytest.mark.browser
@pytest.mark.parametrize("how", FAULTS)
def test_a_load_that_fails_says_why_and_can_be_tried_again(
    how: str, small_address: str, browser: Any
) -> None:
    opened = Page(browser, small_address).open()
    opened.context.route("**/*.bin", lambda route: spoil(stand_in.content(), how, route))
    opened.root.get_by_role("button").click()
    problem = opened.root.get_by_role("alert").filter(has_text="was not loaded")
    problem.wait_for()
    assert re.search(FAULTS[how] if "\\" in FAULTS[how] else re.escape(FAULTS[how]), problem.inner_text())
    assert opened.figure.locator("img").is_visible()
    opened.context.unroute("**/*.bin")
    opened.root.get_by_role("button", name="Try again").click()
    opened.page.wait_for_selector('[data-widget="real_heads"][data-values]')
    opened.settle().hold()
    opened.context.close()


@pytest.mark.browser
def test_without_a_file_it_says_where_to_open_it(small_page: Path, small_address: str, browser: Any) -> None:
    opened = Page(browser, small_address)  # as in a notebook
    html = re.sub(r'data-(file|bytes)="[^"]*"', "", (small_page / "index.html").read_text("utf8"))
    opened.context.route("**/index.html", lambda route: route.fulfill(body=html, content_type="text/html"))
    opened.open()
    assert "from a file beside a page of the book: open it there" in opened.root.inner_text()
    assert opened.root.get_by_role("button").count() == 0
    opened.context.close()


@pytest.mark.browser
def test_from_disk_the_reader_chooses_the_file(small_page: Path, small: Path, browser: Any) -> None:
    opened = Page(browser, (small_page / "index.html").as_uri()).open()
    assert "opened from disk" in opened.root.inner_text()
    named = re.search(r"_static/widgets/\S+\.bin", opened.root.inner_text())
    assert named is not None
    assert (small_page / named[0]).is_file()
    field = opened.root.locator('input[type="file"]')
    field.set_input_files({"name": "x.bin", "mimeType": "", "buffer": b"something else"})
    opened.root.get_by_role("alert").filter(has_text="no model file of this book").wait_for()
    field.set_input_files(small_page / named[0])
    opened.page.wait_for_selector('[data-widget="real_heads"][data-values]')
    opened.settle().hold()
    opened.context.close()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_loaded_it_fits_on_a_phone_and_axe_finds_nothing(
    scheme: Any, small_address: str, browser: Any, packages: None
) -> None:
    opened = Page(browser, small_address, viewport=PHONE, color_scheme=scheme).open().load()
    opened.type(LONG)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    opened.page.evaluate(AXE.read_text("utf8"))
    found = opened.page.evaluate("axe.run('.tf-widget-root', { resultTypes: ['violations'] })")
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in found["violations"]] == []
    opened.context.close()


@pytest.mark.browser
def test_the_real_model_in_its_page(real: Path, html: Path, served: str, browser: Any) -> None:
    pages = [page for page in html.rglob("*.html") if 'data-widget="real_heads"' in page.read_text("utf8")]
    assert [page.stem for page in pages] == ["04_multi_head"]
    opened = Page(browser, f"{served}/{pages[0].relative_to(html)}").open()
    settle(opened.page)
    assert opened.files() == []
    local = [html / url.removeprefix(f"{served}/") for url in opened.requests if "real_heads" in url]
    assert sum(path.stat().st_size for path in local) < 90_000, "script, labels and picture"
    opened.load()
    (address,) = opened.files()
    assert (html / address.removeprefix(f"{served}/")).read_bytes() == real.read_bytes()
    opened.hold()
    for text in (
        "Naïve café 😀 zzyzx!",
        LONG,
        "",
        "The trophy didn't fit into the suitcase: it was too big.",
    ):
        opened.type(text, "It is raining.").hold()
    opened.root.get_by_role("button", name="Cut head 3.1").click()
    opened.settle().hold()
    opened.root.get_by_role("button", name="Cut all of layer 3").click()
    opened.settle().hold()
    assert len(opened.state()["jobs"]) > 40
    opened.context.close()
