"""Faults in attention that chooses what to read: rows of the table in ``mutants.py``."""

ROWS = [
    # the indexer
    ("an indexer without a ReLU", "layers.indexer:Indexer.forward", "F.relu(q @ k.mT)", "q @ k.mT"),
    (
        "an indexer whose heads count alike",
        "layers.indexer:Indexer.forward",
        "self.W_w(x).mT",
        "1 + 0 * self.W_w(x).mT",
    ),
    (
        "an indexer whose keys are not normed",
        "layers.indexer:Indexer.forward",
        "self.norm_k(self.W_k(x))",
        "self.W_k(x)",
    ),
    # native sparse attention
    (
        "compressed blocks seen before they are whole",
        "layers.native_sparse:compressed_mask",
        "torch.arange(block - 1, max(length, block), stride",
        "torch.arange(0, max(length, block) - block + 1, stride",
    ),
    (
        "compressed blocks without places",
        "layers.native_sparse:Compressor.forward",
        "blocks + self.places",
        "blocks",
    ),
    (
        "the later tokens of the query's own block are seen",
        "layers.native_sparse:attend_to_blocks",
        "& (places <= query)",
        "& (places < length)",
    ),
    (
        "one head chooses for its group",
        "layers.native_sparse:NativeSparseAttention._compressed",
        ".sum(2)",
        "[:, :, 0]",
    ),
    (
        "a block's score is the weight of one compressed block",
        "layers.native_sparse:score_blocks",
        ".clamp(min=0)",
        ".eq(stride)",
    ),
    (
        "a compressed block before the text has a weight",
        "layers.native_sparse:score_blocks",
        "(i >= 0) & (i < count)",
        "i < count",
    ),
    (
        "the window reaches back to the first token",
        "layers.native_sparse:NativeSparseAttention.forward",
        "window=c.window, backend",
        "backend",
    ),
    (
        "no block is fixed",
        "layers.native_sparse:select_blocks",
        "scores.masked_fill(fixed, math.inf)",
        "scores",
    ),
    (
        "branches share the window's keys",
        "layers.native_sparse:NativeSparseAttention._heads",
        "(k_1, v_1), (k_2, v_2), (k_3, v_3)",
        "(k_3, v_1), (k_3, v_2), (k_3, v_3)",
    ),
    (
        "gates that sum to one",
        "layers.native_sparse:NativeSparseAttention.forward",
        "self.W_gate(x).sigmoid().unflatten(-1, (3, c.num_heads))",
        "self.W_gate(x).unflatten(-1, (3, c.num_heads)).softmax(dim=-2)",
    ),
    (
        "gates by head and then by branch",
        "layers.native_sparse:NativeSparseAttention.forward",
        ".unflatten(-1, (3, c.num_heads))",
        ".unflatten(-1, (c.num_heads, 3)).mT",
    ),
]
