"""Right answers to `PagedCache`, each in a style of its own."""

from __future__ import annotations

import torch

from autograder.exercises.ch08_serving.PagedCache import EXERCISE


@EXERCISE.style("a table of blocks for each text, and a count of the users of each block")
class block_tables:
    def __init__(self, num_blocks, block_size, num_kv_heads, d_head, dtype=torch.float32, device="cpu"):
        self.block_size = block_size
        self.keys = torch.zeros(num_blocks, num_kv_heads, block_size, d_head, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.unused = list(range(num_blocks))
        self.users = [0] * num_blocks
        self.tables, self.lengths = {}, {}

    def append(self, sequence, k, v):
        table = list(self.tables.get(sequence, []))
        length = self.lengths.get(sequence, 0)
        end = length + k.shape[1]
        missing = (end + self.block_size - 1) // self.block_size - len(table)
        copies = length % self.block_size != 0 and self.users[table[-1]] > 1
        if missing + copies > len(self.unused):
            raise ValueError("too few free blocks")
        if copies:
            own = self.unused.pop(0)
            self.keys[own] = self.keys[table[-1]]
            self.values[own] = self.values[table[-1]]
            self.users[table[-1]] -= 1
            self.users[own] = 1
            table[-1] = own
        for _ in range(missing):
            block = self.unused.pop(0)
            self.users[block] = 1
            table.append(block)
        for t in range(k.shape[1]):
            block, place = table[(length + t) // self.block_size], (length + t) % self.block_size
            self.keys[block, :, place] = k[:, t]
            self.values[block, :, place] = v[:, t]
        self.tables[sequence], self.lengths[sequence] = table, end

    def gather(self, sequence):
        table, length = self.tables[sequence], self.lengths[sequence]
        keys = torch.cat([self.keys[block] for block in table], dim=1)[:, :length]
        values = torch.cat([self.values[block] for block in table], dim=1)[:, :length]
        return keys, values

    def fork(self, sequence, new):
        self.tables[new] = list(self.tables[sequence])
        self.lengths[new] = self.lengths[sequence]
        for block in self.tables[new]:
            self.users[block] += 1

    def free(self, sequence):
        for block in self.tables.pop(sequence):
            self.users[block] -= 1
            if self.users[block] == 0:
                self.unused.append(block)
        del self.lengths[sequence]


@EXERCISE.style("no counts: a block is used if some table names it")
class looked_up:
    def __init__(self, num_blocks, block_size, num_kv_heads, d_head, dtype=torch.float32, device="cpu"):
        self.size, self.num_blocks = block_size, num_blocks
        self.kv = torch.empty(2, num_kv_heads, num_blocks * block_size, d_head, dtype=dtype, device=device)
        self.texts = {}

    def used_by(self, block):
        return sum(block in blocks for blocks, _ in self.texts.values())

    def append(self, sequence, k, v):
        blocks, length = self.texts.get(sequence, ([], 0))
        blocks, end = list(blocks), length + k.size(1)
        free = [b for b in range(self.num_blocks) if not self.used_by(b)]
        old = None
        if length % self.size and self.used_by(blocks[-1]) > 1:
            old = blocks.pop()
        needed = -(-end // self.size) - len(blocks)
        if needed > len(free):
            raise ValueError(f"{needed} blocks are needed, {len(free)} are free")
        if old is not None:
            new = free[0]
            self.kv[:, :, new * self.size : (new + 1) * self.size] = self.kv[
                :, :, old * self.size : (old + 1) * self.size
            ]
        blocks += free[:needed]
        rows = self.rows(blocks)[length:end]
        self.kv[0][:, rows] = k.to(self.kv)
        self.kv[1][:, rows] = v.to(self.kv)
        self.texts[sequence] = blocks, end

    def rows(self, blocks):
        return [block * self.size + place for block in blocks for place in range(self.size)]

    def gather(self, sequence):
        blocks, length = self.texts[sequence]
        keys, values = self.kv[:, :, self.rows(blocks)[:length]]
        return keys, values

    def fork(self, sequence, new):
        self.texts[new] = self.texts[sequence]

    def free(self, sequence):
        del self.texts[sequence]


@EXERCISE.style("a block is an object of its own")
class objects:
    def __init__(self, num_blocks, block_size, num_kv_heads, d_head, dtype=torch.float32, device="cpu"):
        self.left, self.size = num_blocks, block_size
        self.shape = (2, num_kv_heads, block_size, d_head)
        self.options = {"dtype": dtype, "device": device}
        self.texts = {}

    def append(self, sequence, k, v):
        blocks, length = self.texts.get(sequence, ([], 0))
        blocks, T = list(blocks), k.shape[1]
        half_full = length % self.size > 0
        copy = half_full and blocks[-1]["users"] > 1
        new = -(-(length + T) // self.size) - len(blocks)
        if new + int(copy) > self.left:
            raise ValueError("the cache is full")
        self.left -= new + int(copy)
        if copy:
            blocks[-1]["users"] -= 1
            blocks[-1] = {"users": 1, "kv": blocks[-1]["kv"].clone()}
        blocks.extend({"users": 1, "kv": torch.zeros(self.shape, **self.options)} for _ in range(new))
        for t in range(T):
            kv = blocks[(length + t) // self.size]["kv"]
            kv[0, :, (length + t) % self.size] = k[:, t]
            kv[1, :, (length + t) % self.size] = v[:, t]
        self.texts[sequence] = (blocks, length + T)

    def gather(self, sequence):
        blocks, length = self.texts[sequence]
        kv = torch.cat([block["kv"] for block in blocks], dim=2)[:, :, :length]
        return kv[0], kv[1]

    def fork(self, sequence, new):
        blocks, length = self.texts[sequence]
        for block in blocks:
            block["users"] += 1
        self.texts[new] = (list(blocks), length)

    def free(self, sequence):
        blocks, _ = self.texts.pop(sequence)
        for block in blocks:
            block["users"] -= 1
            self.left += block["users"] == 0


@EXERCISE.style("whole chunks written through one index")
class by_index:
    def __init__(self, num_blocks, block_size, num_kv_heads, d_head, dtype=torch.float32, device="cpu"):
        self.b = block_size
        self.k = torch.zeros(num_kv_heads, num_blocks, block_size, d_head, dtype=dtype, device=device)
        self.v = self.k.clone()
        self.table, self.length = {}, {}
        self.users = torch.zeros(num_blocks, dtype=torch.long)

    def append(self, sequence, k, v):
        table = list(self.table.get(sequence, ()))
        begin = self.length.get(sequence, 0)
        end = begin + k.shape[1]
        free = (self.users == 0).nonzero().flatten().tolist()
        shared = bool(begin % self.b) and int(self.users[table[-1]]) > 1
        new = -(-end // self.b) - len(table)
        if new + shared > len(free):
            raise ValueError("not enough blocks")
        if shared:
            own = free.pop(0)
            self.k[:, own] = self.k[:, table[-1]]
            self.v[:, own] = self.v[:, table[-1]]
            self.users[table[-1]] -= 1
            table[-1] = own
            self.users[own] = 1
        table += free[:new]
        self.users[free[:new]] += 1
        at = torch.arange(begin, end)
        blocks = torch.tensor(table)[at // self.b]
        self.k[:, blocks, at % self.b] = k.to(self.k)
        self.v[:, blocks, at % self.b] = v.to(self.v)
        self.table[sequence], self.length[sequence] = table, end

    def gather(self, sequence):
        keys = self.k[:, self.table[sequence]].flatten(1, 2)[:, : self.length[sequence]]
        values = self.v[:, self.table[sequence]].flatten(1, 2)[:, : self.length[sequence]]
        return keys, values

    def fork(self, sequence, new):
        self.table[new], self.length[new] = self.table[sequence], self.length[sequence]
        self.users[self.table[new]] += 1

    def free(self, sequence):
        self.users[self.table.pop(sequence)] -= 1
        del self.length[sequence]
