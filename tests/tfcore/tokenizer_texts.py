"""Texts that are hard to cut, and a tokenizer that was trained on some of them."""

from __future__ import annotations

import json

from tfcore.tokenizer import BPETokenizer

TEXT = (
    "The cat sat on the mat, didn't it? The other cat's mat was 12 345 inches wide; they're they'd I'll.\n\n"
    "Der Bär aß süße Äpfel. Кошка сидела на окне, кошка спала. 猫はマットの上に座った。猫は寝た。\t\t  \n"
    "    def f(x):\n        return x ** 2  # naïve café 🙂🙂 👩‍👩‍👧 ½ ² ٣٤ a\u0301\u0301 \u00a0\u2003 end\r\n"
) * 3
SPECIAL = ("<|end|>", "<|end|><|end|>", "<|Benutzer mit Ä|>", "[x]")
TOKENIZER = BPETokenizer.train(TEXT, vocab_size=420, special_tokens=SPECIAL)

NASTY = [
    "It's IT'S i'LL we'Ve 'd 'D",
    "1 12 123 1234 12345678",
    " 1234",
    "a\r\nb\n\n\n c\r",
    "!!!\n\n",
    " ?!\r\n x",
    "\u00a0\u2003x  \t y",
    "e\u0301te\u0301 A\u0301\u0302",
    "سلام ١٢٣٤ ٣",
    "🙂🙂 👩‍👩‍👧!",
    "x_y-z #tag @me",
    "½ ² Ⅷ",
    "\x1c\x85 \ufeffa",
    "'",
    "''s",
    "  ",
    "\n",
    "",
    "猫は、マットの上。",
    "don't-stop(now)",
    "$5,000.00 €3",
    "tab\tword",
    " \n \n  x",
]


def changed(**changes: object) -> str:
    content = json.loads(TOKENIZER.fast().to_str())
    for path, value in changes.items():
        *folders, name = path.split("__")
        place = content
        for folder in folders:
            place = place[int(folder) if folder.isdigit() else folder]
        place[name] = value
    return json.dumps(content)
