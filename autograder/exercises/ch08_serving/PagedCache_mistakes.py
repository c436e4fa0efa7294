"""Mistakes that people make in `PagedCache`, each with the hint for its author."""

from __future__ import annotations

from functools import partial

from autograder.checking.edits import wrong
from autograder.exercises.ch08_serving.PagedCache import EXERCISE
from autograder.exercises.ch08_serving.PagedCache_styles import block_tables

edited = partial(wrong, EXERCISE, block_tables)
slip = partial(edited, gravity="slip")

# Where tokens are written and how they are read

edited(
    "returns_the_empty_end",
    "You return whole blocks, with the empty places at the end of the last block. Cut keys and values to the "
    "length of the text.",
    {
        "keys = torch.cat([self.keys[block] for block in table], dim=1)[:, :length]": (
            "keys = torch.cat([self.keys[block] for block in table], dim=1)"
        ),
        "values = torch.cat([self.values[block] for block in table], dim=1)[:, :length]": (
            "values = torch.cat([self.values[block] for block in table], dim=1)"
        ),
    },
)
edited(
    "blocks_in_the_order_of_the_room",
    "You read the blocks in the order of their numbers. Read them in the order of the text's own list: a "
    "block that was freed and taken again may have a smaller number than the one before it.",
    {
        "keys = torch.cat([self.keys[block] for block in table]": (
            "keys = torch.cat([self.keys[block] for block in sorted(table)]"
        ),
        "values = torch.cat([self.values[block] for block in table]": (
            "values = torch.cat([self.values[block] for block in sorted(table)]"
        ),
    },
)
edited(
    "each_append_begins_a_block",
    "Every `append` begins a new block and leaves the end of the last one empty. Fill the last block first: "
    "token t of a text is at place t % block_size of its block t // block_size.",
    {
        "length = self.lengths.get(sequence, 0)\n": ("length = len(table) * self.block_size\n"),
    },
)
edited(
    "writes_at_the_front",
    "Every `append` writes to the start of the text, over the tokens that are there. Begin after them, at "
    "the current length of the text.",
    {
        "table[(length + t) // self.block_size], (length + t) % self.block_size": (
            "table[t // self.block_size], t % self.block_size"
        )
    },
)
slip(
    "values_from_the_keys",
    "Your values are the keys. Write v into the values.",
    {"self.values[block, :, place] = v[:, t]": "self.values[block, :, place] = k[:, t]"},
)
edited(
    "the_new_tokens_alone",
    "After an `append` the text has the length of the new tokens alone. Its length is what it was before, "
    "plus the new tokens.",
    {
        "self.tables[sequence], self.lengths[sequence] = table, end": (
            "self.tables[sequence], self.lengths[sequence] = table, k.shape[1]"
        )
    },
)

# What is refused

edited(
    "never_refuses",
    "When no block is free, you take one that a text uses, and write over its tokens. Raise a ValueError "
    "before anything is written.",
    {
        'raise ValueError("too few free blocks")': "self.unused += list(range(len(self.users)))",
    },
)
slip(
    "one_block_always_kept",
    "You refuse an `append` that needs all the free blocks. Let a text take every free block.",
    {
        "if missing + copies > len(self.unused):": (
            "if missing + copies and missing + copies >= len(self.unused):"
        )
    },
)
edited(
    "half_an_append",
    "A refused `append` has already taken blocks, and they are lost. Count first; take blocks only when "
    "there are enough.",
    {
        "if missing + copies > len(self.unused):\n": (
            "if missing + copies > len(self.unused):\n            self.unused.clear()\n"
        )
    },
)
edited(
    "half_an_append_loses_the_copy",
    "A refused `append` has already taken a block for a copy, and this block is lost. Count the copy and the "
    "new blocks together, before you change anything.",
    {
        "if missing + copies > len(self.unused):": "if max(missing, copies) > len(self.unused):",
        "        for _ in range(missing):\n": (
            "        if missing > len(self.unused):\n"
            '            raise ValueError("too few free blocks")\n'
            "        for _ in range(missing):\n"
        ),
    },
)
edited(
    "half_an_append_is_kept",
    "A refused `append` leaves the text longer than it was. Where blocks are missing, change nothing: "
    "neither the tokens nor the length.",
    {
        'raise ValueError("too few free blocks")': (
            "if table:\n"
            "                self.lengths[sequence] = len(table) * self.block_size\n"
            '            raise ValueError("too few free blocks")'
        )
    },
)
edited(
    "counts_tokens",
    "You compare tokens with the room that is left, but a text has whole blocks: what is empty in the last "
    "block of one text is of no use to another. Count the blocks that the text needs beyond its own.",
    {
        "if missing + copies > len(self.unused):": (
            "if sum(self.lengths.values()) + k.shape[1] > len(self.users) * self.block_size:"
        ),
        "block = self.unused.pop(0)\n            self.users[block] = 1": (
            "block = self.unused.pop(0) if self.unused else 0\n            self.users[block] += 1"
        ),
    },
)
slip(
    "a_block_more_than_needed",
    "A text whose tokens fill their blocks exactly takes one block too many. Its tokens need "
    "ceil(length / block_size) blocks: (length + block_size - 1) // block_size.",
    {"missing = (end + self.block_size - 1) // self.block_size": "missing = end // self.block_size + 1"},
)

# What is given back

edited(
    "blocks_never_given_back",
    "`free` forgets the text, but its blocks stay taken. Put each block that no other text uses back among "
    "the free ones.",
    {"self.unused.append(block)": "pass"},
)
edited(
    "gives_back_what_others_use",
    "`free` gives back blocks that a fork still has, and the next text writes over them. Count the users of "
    "each block; it is free when the last one gives it up.",
    {
        "            if self.users[block] == 0:\n                self.unused.append(block)": (
            "            self.unused.append(block)"
        )
    },
)

# What a fork shares

edited(
    "writes_into_shared_blocks",
    "A fork and its source write into the block that they share, each over the other's tokens. Copy the last "
    "block before you write into it while another text has it too.",
    {"copies = length % self.block_size != 0 and self.users[table[-1]] > 1": "copies = False"},
)
edited(
    "a_fork_copies_everything",
    "`fork` copies all blocks, though both texts have the same tokens. Share them, by the same numbers in "
    "both lists; only a block that is written into has to be copied.",
    {
        "for block in self.tables[new]:\n            self.users[block] += 1": (
            "if len(self.tables[new]) > len(self.unused):\n"
            '            raise ValueError("too few free blocks")\n'
            "        for i, block in enumerate(self.tables[new]):\n"
            "            own = self.unused.pop(0)\n"
            "            self.keys[own], self.values[own] = self.keys[block], self.values[block]\n"
            "            self.users[own], self.tables[new][i] = 1, own"
        )
    },
)
edited(
    "one_list_for_both",
    "A fork and its source share one list, so a block that one of them takes is in both. Copy the list of "
    "numbers: list(table).",
    {
        "table = list(self.tables.get(sequence, []))": "table = self.tables.setdefault(sequence, [])",
        "self.tables[new] = list(self.tables[sequence])": "self.tables[new] = self.tables[sequence]",
    },
)
slip(
    "copies_when_alone",
    "You copy the last block although no other text has it any more. Once one of two texts has its own copy, "
    "the other is the only user: lower the count of the block that was copied.",
    {"            self.users[table[-1]] -= 1\n": ""},
)
slip(
    "copies_full_blocks",
    "You copy the last block of a fork even when it is full. Nothing will be written into a full block: take "
    "a new one for the next token, and copy nothing.",
    {
        "copies = length % self.block_size != 0 and self.users[table[-1]] > 1": (
            "copies = bool(table) and self.users[table[-1]] > 1"
        )
    },
)
edited(
    "copies_the_keys_alone",
    "When a shared block is copied, its values stay behind. Copy the keys and the values.",
    {"            self.values[own] = self.values[table[-1]]\n": ""},
)
edited(
    "a_new_block_in_place_of_a_copy",
    "The block that a fork takes in place of the shared one is empty: the tokens at its start are lost. Copy "
    "what is in the shared block first.",
    {
        "            self.keys[own] = self.keys[table[-1]]\n": "",
        "            self.values[own] = self.values[table[-1]]\n": "",
    },
)
edited(
    "a_copy_is_not_counted",
    "You do not count the block for the copy, so an `append` is not refused when no block is left for the "
    "copy. Count a block for it too.",
    {"if missing + copies > len(self.unused):": "if missing > len(self.unused):"},
)
edited(
    "a_fork_is_not_counted",
    "`fork` does not raise the count of the blocks' users, so each of the two texts seems to be their only "
    "user. Add 1 for each block.",
    {"        for block in self.tables[new]:\n            self.users[block] += 1": "        pass"},
)

# Where and in what

slip(
    "always_float32",
    "Your buffer is float32 whatever dtype is asked for. Pass dtype on to torch.zeros.",
    {"d_head, dtype=dtype, device=device)": "d_head, device=device)"},
)
slip(
    "always_on_the_cpu",
    "Your buffer is on the CPU whatever device is asked for. Pass device on to torch.zeros.",
    {"d_head, dtype=dtype, device=device)": "d_head, dtype=dtype)"},
)
