"""Where the book treats what an exercise asks for: the section to read again after a mistake."""

from __future__ import annotations

from dataclasses import dataclass

from docutils.nodes import make_id

from autograder.errors import BadInputError
from autograder.layout import CONFIG, Course

HEADINGS = {
    "ch01_rnn_bottleneck/rnn_forward": "A question and a failure",
    "ch01_rnn_bottleneck/gradient_norms": "What one step does to a push",
    "ch01_rnn_bottleneck/critical_path": "Who has to wait",
    "ch01_rnn_bottleneck/additive_attention": "Looking back",
    "ch02_qkv/softmax": "The mathematics",
    "ch02_qkv/project_qkv": "The mathematics",
    "ch02_qkv/attention_scores": "The mathematics",
    "ch02_qkv/scaled_dot_product_attention": "The code",
    "ch02_qkv/soft_lookup": "The idea",
    "ch03_scaling/dot_product_stats": "The variance, one assumption at a time",
    "ch03_scaling/dot_product_variance": "The variance, one assumption at a time",
    "ch03_scaling/softmax_jacobian": "Why large scores silence the gradient",
    "ch03_scaling/attention_entropy": "What goes wrong",
    "ch03_scaling/scale_for_unit_variance": "The variance, one assumption at a time",
    "ch04_multi_head/split_heads": "The cut",
    "ch04_multi_head/merge_heads": "The cut",
    "ch04_multi_head/MultiHeadAttention": "The mathematics",
    "ch04_multi_head/repeat_kv": "Groups: side by side, or tiled",
    "ch04_multi_head/parameter_count": "What heads cost",
    "ch05_positions/sinusoidal_encoding": "Sinusoids: one matrix for a step",
    "ch05_positions/shift_matrix": "Sinusoids: one matrix for a step",
    "ch05_positions/apply_rope": "RoPE: only the difference is left",
    "ch05_positions/alibi_bias": "What a sum does to a score",
    "ch05_positions/t5_relative_bucket": "What a sum does to a score",
    "ch06_blocks/layer_norm": "Two norms",
    "ch06_blocks/rms_norm": "Two norms",
    "ch06_blocks/swiglu": "The feed-forward network, and where 8/3 comes from",
    "ch06_blocks/swiglu_hidden_size": "The feed-forward network, and where 8/3 comes from",
    "ch06_blocks/TransformerBlock": "The idea",
    "ch06_blocks/DecoderBlock": "The code",
    "ch07_causal_masking/causal_mask": "Who can know what",
    "ch07_causal_masking/combine_masks": "Minus infinity, not zero",
    "ch07_causal_masking/next_token_loss": "The mean over what?",
    "ch07_causal_masking/find_leaks": "Find the leak",
    "ch07_causal_masking/filter_logits": "Drawing a token",
    "ch07_causal_masking/generate": "Drawing a token",
    "ch08_kv_cache/KVCache": "Nothing old changes",
    "ch08_kv_cache/generate_cached": "Nothing old changes",
    "ch08_kv_cache/kv_cache_bytes": "By hand",
    "ch08_kv_cache/SlidingWindowCache": "What a window forgets",
    "ch08_kv_cache/quantize_kv": "Rounding to 8 bits",
    "ch08_kv_cache/dequantize_kv": "Rounding to 8 bits",
    "ch08_kv_cache/speculative_accept": "Guessing ahead, exactly",
    "ch09_variants/sliding_window_mask": "A window, and a ring",
    "ch09_variants/tiled_attention": "A softmax in pieces",
    "ch09_variants/ring_attention": "A window, and a ring",
    "ch09_variants/linear_attention": "Moving the brackets",
    "ch09_variants/wkv": "Moving the brackets",
    "ch09_variants/selective_scan": "Moving the brackets",
    "ch09_variants/route_top_k": "Experts, and how to keep them busy",
    "ch10_capstone/TinyGPT": "The model in six lines",
    "ch10_capstone/find_coreference_head": "Look, cut, patch",
}
"""By exercise, a heading of its chapter; a test looks for each in the book."""


@dataclass(frozen=True)
class Section:
    """A section of the book."""

    page: str
    """Such as ``02_qkv``."""
    heading: str

    @property
    def chapter(self) -> int:
        return int(self.page.split("_")[0])

    @property
    def says(self) -> str:
        """Where it is, in words.

        >>> section_of("ch02_qkv/softmax").says
        'chapter 2, "The mathematics"'
        """
        return f'chapter {self.chapter}, "{self.heading}"'

    def url(self, book: str) -> str:
        """Its address in the book that is published at the address `book`.

        >>> section_of("ch08_kv_cache/quantize_kv").url("https://example.org/course/")
        'https://example.org/course/book/08_kv_cache.html#rounding-to-8-bits'
        """
        return f"{book.rstrip('/')}/book/{self.page}.html#{make_id(self.heading)}"


def section_of(exercise: str) -> Section | None:
    """The section that treats an exercise, named ``assignment/function``, or None."""
    heading = HEADINGS.get(exercise)
    return Section(exercise.split("/")[0].removeprefix("ch"), heading) if heading else None


def book_of(course: Course) -> str:
    """The address at which a course's book is published, as nbgrader_config.py gives it, or nothing.

    Raises:
        BadInputError: it is no address of a web page.
    """
    url = str(course.config.get("Course", {}).get("book_url", ""))
    if url and not url.startswith(("http://", "https://")):
        raise BadInputError(
            f"c.Course.book_url in {CONFIG} is {url!r}. Expected an address such as https://example.org/course."
        )
    return url
