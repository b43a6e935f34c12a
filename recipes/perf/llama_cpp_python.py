"""llama-cpp-python: a prompt and single tokens through models of random weights, against numpy.

Models are made here, in the GGUF format
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), of random bytes in each of the weights'
formats (`ggml-common.h` and `ggml-quants.c` of llama.cpp define them). The reference decodes the
very same bytes and computes in float32, so that what is compared is llama.cpp's arithmetic, not the
loss of a format.
"""

from __future__ import annotations

import functools
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import llama_cpp
import numpy as np
from grid import case_of
from grid import cases_of as grid_cases
from perf_case import Case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

PACKAGE = "llama_cpp"
FRAMEWORK = "host"
UNTOUCHED = (
    "formats of weights besides the five of `FORMATS`, architectures besides llama",
    "sampling, grammars, chat formats and tokens of texts, which use no GPU",
    "adapters, embeddings, several sequences, sliding windows, states, pictures",
    "several GPUs; a second stream: a context has its own",
    "NaN in weights, empty prompts, caches besides fp16 and Q8_0",
)
OWN_SHARE = 0.4  # an H100 had 0.62 at least
# Variables of ggml's CUDA part that choose other kernels.
VARIABLES = (
    *("GGML_CUDA_CUBLAS_COMPUTE_TYPE", "GGML_CUDA_DISABLE_FUSION", "GGML_CUDA_DISABLE_GRAPHS"),
    "GGML_CUDA_MMQ_PREC",
)

Array: TypeAlias = "NDArray[Any]"

PROMPT = 512  # tokens, one batch
ANSWER = 64  # tokens, one after another
SMALL_PROMPT, SMALL_ANSWER = 48, 8  # for what is only checked
# Before a product with quantized weights, llama.cpp rounds the other factor to 8 bits in blocks of
# 32: steps of 1/127 of the largest, about 2.1 standard deviations, are wrong by
# 2.1 / 127 / sqrt(12) = 0.5 % of one. A layer has three such products in a row in its attention,
# two in its MLP, and each layer hands on what the ones before it had: 1 to 1.5 % of the logits.
# With the minimums of Q4_K, or blocks of 256 as the CPU has them, it is up to twice as much. A
# wrong scale, block or position is wrong by tens of percent.
QUANTIZED = 4e-2
# fp16 factors: 2e-4 a rounding, but sums may be in fp16 too, which adds one at each 16 terms.
HALF = 1e-2


# Formats of weights.


@dataclass(frozen=True)
class Format:
    """How a block of weights lies in bytes.

    Attributes:
        number: as GGUF names the format.
        weights: in a block.
        size: bytes of a block.
        scales: offset of each fp16 number in the block, and what it is times the block's scale.
        decode: the weights of blocks of bytes, one block a row.
        deviation: of the weights of random bytes whose scale is 1.
    """

    number: int
    weights: int
    size: int
    scales: tuple[tuple[int, float], ...]
    decode: Callable[[Array], Array]
    deviation: float


def half(blocks: Array, offset: int) -> Array:
    """The fp16 number at an offset of each block, as a column of float32."""
    return blocks[:, offset : offset + 2].copy().view("<f2").astype("f4")


def nibbles(packed: Array) -> Array:
    """The lower halves of all bytes of a row, then the upper ones."""
    return np.concatenate((packed & 15, packed >> 4), axis=-1)


def decode_f16(blocks: Array) -> Array:
    """One fp16 number."""
    return half(blocks, 0)


def decode_q8_0(blocks: Array) -> Array:
    """A scale and 32 int8."""
    return half(blocks, 0) * blocks[:, 2:].view("i1")


def decode_q4_0(blocks: Array) -> Array:
    """A scale and 32 numbers of 4 bits, less 8."""
    return half(blocks, 0) * (nibbles(blocks[:, 2:]).astype("f4") - 8)


def decode_q4_k(blocks: Array) -> Array:
    """Eight groups of 32, each with a scale and a minimum of 6 bits, which have a scale each."""
    six = blocks[:, 4:16]
    low, middle, high = six[:, :4], six[:, 4:8], six[:, 8:]
    scale = np.concatenate((low & 63, (high & 15) | (low >> 6 << 4)), axis=1)
    least = np.concatenate((middle & 63, (high >> 4) | (middle >> 6 << 4)), axis=1)
    codes = nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    scaled = (half(blocks, 0) * scale)[..., None] * codes
    return (scaled - (half(blocks, 2) * least)[..., None]).reshape(-1, 256)


def decode_q6_k(blocks: Array) -> Array:
    """Sixteen groups of 16, each with a scale of 8 bits; 4 and 2 bits of a number lie apart."""
    low = nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], "u1")[:, None] & 3
    codes = (low | high << 4).astype("f4") - 32
    scale = half(blocks, 208) * blocks[:, 192:208].view("i1")
    return (codes.reshape(-1, 16, 16) * scale[..., None]).reshape(-1, 256)


FORMATS = {
    "F16": Format(1, 1, 2, (), decode_f16, 1),
    "Q8_0": Format(8, 32, 34, ((0, 1),), decode_q8_0, 73.8),
    "Q4_0": Format(2, 32, 18, ((0, 1),), decode_q4_0, 4.2),
    # Scales and codes are 0 to 63 and 0 to 15: minimums of 7.5 times a scale bring the mean to 0.
    "Q4_K": Format(12, 256, 144, ((0, 1), (2, 7.5)), decode_q4_k, 257),
    "Q6_K": Format(14, 256, 210, ((208, 1),), decode_q6_k, 1366),
}


@dataclass(frozen=True)
class Matrix:
    """Weights as they lie in the file.

    Attributes:
        form: their format.
        shape: rows and columns; a row belongs to one output.
        blocks: bytes, one block a row.
    """

    form: Format
    shape: tuple[int, ...]
    blocks: Array

    @functools.cached_property
    def values(self) -> Array:
        """What the bytes mean, in float32."""
        return self.form.decode(self.blocks).reshape(self.shape)


def random_matrix(form: Format, rows: int, columns: int, random: np.random.Generator) -> Matrix:
    """Random weights, small enough that a product is about as large as its input."""
    count = rows * columns // form.weights
    size = 1 / (form.deviation * columns**0.5)
    if not form.scales:
        values = (size * random.standard_normal((count, 1), "f4")).astype("<f2")
        return Matrix(form, (rows, columns), values.view("u1"))
    blocks = random.integers(0, 256, (count, form.size), "u1")
    if form.decode is decode_q4_0:
        # -8 to 7 would have a mean: products then are almost alike, and cancel in what follows.
        blocks = np.where(blocks & 15, blocks, blocks | 8)
        blocks = np.where(blocks >> 4, blocks, blocks | 128)
    for offset, times in form.scales:
        scales = size * times * random.uniform(0.8, 1.2, (count, 1))
        blocks[:, offset : offset + 2] = scales.astype("<f2").view("u1")
    return Matrix(form, (rows, columns), blocks)


def row(values: Array) -> Matrix:
    """A vector in float32."""
    return Matrix(
        Format(0, 1, 4, (), lambda raw: raw.view("<f4"), 1),
        values.shape,
        values.astype("<f4").reshape(-1, 1).view("u1"),
    )


# Models.


@dataclass(frozen=True)
class Model:
    """Sizes of a model of the architecture `llama`.

    Attributes:
        form: the name of its weights' format.
        width: of what layers hand on.
        inner: width inside an MLP.
        layers: how many.
        distinct: of those have weights of their own; the others repeat them.
        heads: of attention.
        shared: heads of keys and values, each for several of attention.
        vocabulary: tokens.
    """

    form: str
    width: int
    inner: int
    layers: int
    distinct: int
    heads: int
    shared: int
    vocabulary: int

    @functools.cached_property
    def weights(self) -> dict[str, Matrix]:
        """By name; those of layers `blk.0.attn_q` and so on, for the distinct ones."""
        random = np.random.default_rng(0)
        form = FORMATS[self.form]
        narrow = self.width * self.shared // self.heads
        shapes = {
            "attn_q": (self.width, self.width),
            "attn_k": (narrow, self.width),
            "attn_v": (narrow, self.width),
            "attn_output": (self.width, self.width),
            "ffn_gate": (self.inner, self.width),
            "ffn_up": (self.inner, self.width),
            "ffn_down": (self.width, self.inner),
        }
        found = {
            "token_embd": Matrix(
                FORMATS["F16"],
                (self.vocabulary, self.width),
                random.standard_normal((self.vocabulary * self.width, 1), "f4")
                .astype("<f2")
                .view("u1"),
            ),
            "output": random_matrix(form, self.vocabulary, self.width, random),
            "output_norm": row(random.uniform(0.5, 1.5, self.width)),
        }
        for layer in range(self.distinct):
            for name, shape in shapes.items():
                found[f"blk.{layer}.{name}"] = random_matrix(form, *shape, random)
            for name in ("attn_norm", "ffn_norm"):
                found[f"blk.{layer}.{name}"] = row(random.uniform(0.5, 1.5, self.width))
        return found

    def tensors(self) -> Iterator[tuple[str, Matrix]]:
        """Every tensor of the file."""
        for name, matrix in self.weights.items():
            if not name.startswith("blk."):
                yield f"{name}.weight", matrix
        for layer in range(self.layers):
            prefix = f"blk.{layer % self.distinct}."
            for name, matrix in self.weights.items():
                if name.startswith(prefix):
                    yield f"blk.{layer}.{name.removeprefix(prefix)}.weight", matrix

    def facts(self) -> dict[str, str | int | float]:
        """Metadata of the file; there are no words, tokens are numbers."""
        return {
            "general.architecture": "llama",
            "general.name": "random",
            "general.quantization_version": 2,
            "llama.context_length": 2 * PROMPT,
            "llama.embedding_length": self.width,
            "llama.block_count": self.layers,
            "llama.feed_forward_length": self.inner,
            "llama.attention.head_count": self.heads,
            "llama.attention.head_count_kv": self.shared,
            "llama.attention.layer_norm_rms_epsilon": EPSILON,
            "llama.rope.dimension_count": self.width // self.heads,
            "llama.rope.freq_base": BASE,
            "llama.vocab_size": self.vocabulary,
            "tokenizer.ggml.model": "no_vocab",
        }

    def product_weights(self) -> int:
        """Weights of all layers, each multiplied once a token."""
        return self.layers * sum(
            matrix.shape[0] * matrix.shape[1]
            for name, matrix in self.weights.items()
            if name.startswith("blk.0.") and len(matrix.shape) > 1
        )


EPSILON = 1e-5
BASE = 10000.0
ALIGNMENT = 32  # bytes


def write(model: Model, file: BinaryIO) -> None:
    """The model as a GGUF file, version 3."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    def fact(value: str | float) -> bytes:
        if isinstance(value, str):
            return struct.pack("<I", 8) + text(value)
        if isinstance(value, int):
            return struct.pack("<II", 4, value)
        return struct.pack("<If", 6, value)

    tensors, facts = list(model.tensors()), model.facts()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts))
    head += b"".join(text(key) + fact(value) for key, value in facts.items())
    offset = 0
    for name, matrix in tensors:
        sizes = matrix.shape[::-1]  # the one that varies fastest comes first
        head += text(name) + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
        head += struct.pack("<IQ", matrix.form.number, offset)
        offset += matrix.blocks.nbytes + -matrix.blocks.nbytes % ALIGNMENT
    file.write(head + bytes(-len(head) % ALIGNMENT))
    for _, matrix in tensors:
        file.write(matrix.blocks.tobytes() + bytes(-matrix.blocks.nbytes % ALIGNMENT))


# The reference.


def normed(x: Array, weight: Array) -> Array:
    """Divided by the root of the mean square."""
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPSILON) * weight


def turned(x: Array, scale: float) -> Array:
    """Pairs of neighbours turned by an angle that grows with the token's position."""
    tokens, _, width = x.shape
    rates = BASE ** (-np.arange(0, width, 2) / width)
    angles = (scale * np.arange(tokens)[:, None] * rates)[:, None, :]
    pairs = x[..., ::2] + 1j * x[..., 1::2]
    found = pairs * np.exp(1j * angles)
    return np.stack((found.real, found.imag), axis=-1).reshape(x.shape).astype("f4")


def attention(model: Model, x: Array, weight: Callable[[str], Array], scale: float) -> Array:
    """Every token sees itself and those before it."""
    tokens, width = len(x), model.width // model.heads
    query = turned((x @ weight("attn_q").T).reshape(tokens, model.heads, width), scale)
    key = turned((x @ weight("attn_k").T).reshape(tokens, model.shared, width), scale)
    value = (x @ weight("attn_v").T).reshape(tokens, model.shared, width)
    keys, values = (np.repeat(one, model.heads // model.shared, axis=1) for one in (key, value))
    scores: Array = query.transpose(1, 0, 2) @ keys.transpose(1, 2, 0) / width**0.5
    scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    seen = (shares @ values.transpose(1, 0, 2)).transpose(1, 0, 2).reshape(tokens, -1)
    return seen @ weight("attn_output").T


def logits(model: Model, tokens: Array, count: int, scale: float = 1.0) -> Array:
    """Of the last `count` tokens, as the architecture says, in float32."""
    weights = model.weights
    x = weights["token_embd"].values[tokens]
    for layer in range(model.layers):

        def weight(name: str, layer: int = layer % model.distinct) -> Array:
            return weights[f"blk.{layer}.{name}"].values

        x = x + attention(model, normed(x, weight("attn_norm")), weight, scale)
        y = normed(x, weight("ffn_norm"))
        gate = y @ weight("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ weight("ffn_up").T)) @ weight("ffn_down").T
    last = normed(x[-count:], weights["output_norm"].values)
    return last @ weights["output"].values.T


# The package.


@functools.cache
def loaded(model: Model, *, is_on_gpu: bool) -> llama_cpp.Llama:
    """The model in the GPU's memory or the host's."""
    return loaded_with(
        model,
        n_gpu_layers=-1 if is_on_gpu else 0,
        offload_kqv=is_on_gpu,
        op_offload=is_on_gpu,
    )


def loaded_with(model: Model, **options: Any) -> llama_cpp.Llama:
    """The model in a context of its own; its file is gone again."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "random.gguf")
        with path.open("wb") as file:
            write(model, file)
        return llama_cpp.Llama(
            str(path),
            split_mode=llama_cpp.LLAMA_SPLIT_MODE_NONE,  # the first GPU, not all
            n_ctx=2 * PROMPT,
            n_batch=PROMPT,
            verbose=False,
            **{"n_ubatch": PROMPT, **options},
        )


def last_logits(llama: llama_cpp.Llama) -> Array:
    """Of the token that was evaluated last."""
    found = llama_cpp.llama_get_logits_ith(llama.ctx, -1)
    return np.ctypeslib.as_array(found, shape=(llama.n_vocab(),)).copy()


def answer_prompt(model: Model, tokens: Array, *, is_on_gpu: bool = True) -> Array:
    """Logits after all tokens at once."""
    llama = loaded(model, is_on_gpu=is_on_gpu)
    llama.reset()
    llama.eval(tokens.tolist())
    return last_logits(llama)[None]


def answer_tokens(model: Model, tokens: Array, *, is_on_gpu: bool = True) -> Array:
    """Logits after each token, one after another; which comes next is given, not drawn."""
    llama = loaded(model, is_on_gpu=is_on_gpu)
    llama.reset()
    found: list[Array] = []
    for token in tokens.tolist():
        llama.eval([token])
        found.append(last_logits(llama))
    return np.stack(found)


def tokens_of(model: Model, count: int, seed: int) -> tuple[Array]:
    """Random tokens."""
    return (np.random.default_rng(seed).integers(0, model.vocabulary, count),)


# The grid: what a context offers, in pairs, with small models.

Row = dict[str, Any]
AXES: dict[str, tuple[Any, ...]] = {
    "form": tuple(FORMATS),
    "prompt": (48, 1, 7, 130),
    "answer": (0, 3),  # tokens after it, one after another
    "heads": ((4, 2), (4, 4), (4, 1)),  # of attention, of keys and values
    "width": (256, 512),
    "batch": (512, 32),  # tokens at once on the GPU
    "flash": (False, True),
    "cache": ("F16", "Q8_0"),
    "on GPU": ("all", "layers", "two layers", "not the cache"),
    "scale": (1.0, 0.5),  # of positions
}
PLACES: dict[str, dict[str, Any]] = {
    "all": {"n_gpu_layers": -1},
    "layers": {"n_gpu_layers": 3},  # not the product with the vocabulary
    "two layers": {"n_gpu_layers": 2},
    "not the cache": {"n_gpu_layers": -1, "offload_kqv": False},
}
CACHES = {"F16": llama_cpp.GGML_TYPE_F16, "Q8_0": llama_cpp.GGML_TYPE_Q8_0}


def exists(row: Row) -> bool:
    """A cache in 8 bits needs flash attention (llama-context.cpp: V cache quantization)."""
    return row["cache"] == "F16" or bool(row["flash"])


def model_of(row: Row) -> Model:
    """A small model."""
    heads, shared = row["heads"]
    width = row["width"]
    return Model(row["form"], width, 3 * width, 3, 3, heads, shared, vocabulary=512)


@functools.lru_cache(maxsize=1)
def loaded_row(row: tuple[tuple[str, Any], ...]) -> llama_cpp.Llama:
    """The row's model; the one before is freed."""
    options = dict(row)
    cache = CACHES[options["cache"]]
    return loaded_with(
        model_of(options),
        n_ubatch=options["batch"],
        flash_attn=options["flash"],
        type_k=cache,
        type_v=cache,
        rope_freq_scale=options["scale"],
        **PLACES[options["on GPU"]],
    )


def row_inputs(row: Row, seed: int) -> tuple[Array]:
    """Random tokens of prompt and answer."""
    return tokens_of(model_of(row), row["prompt"] + row["answer"], seed)


def answer_row(row: Row, tokens: Array) -> Array:
    """Logits after the prompt and after each token that follows."""
    llama = loaded_row(tuple(row.items()))
    llama.reset()
    llama.eval(tokens[: row["prompt"]].tolist())
    found = [last_logits(llama)]
    for token in tokens[row["prompt"] :].tolist():
        llama.eval([token])
        found.append(last_logits(llama))
    return np.stack(found)


def exact_row(row: Row, tokens: Array) -> Array:
    """The same by numpy."""
    return logits(model_of(row), tokens, row["answer"] + 1, row["scale"])


def row_case(row: Row) -> Case:
    """A prompt and an answer."""
    is_half = row["form"] == "F16" and row["cache"] == "F16"
    return case_of(
        row,
        row_inputs,
        answer_row,
        exact_row,
        joined={"heads": "x"},
        limit=HALF if is_half else QUANTIZED,
        memory=1 << 29,
    )


GRIDS = ((AXES, exists, row_case),)


LARGE = Model("Q8_0", 2048, 5632, layers=6, distinct=1, heads=32, shared=32, vocabulary=8192)


def cases() -> list[Case]:
    """Small models in every format are checked, a large one is measured too."""
    found: list[Case] = []
    for form in FORMATS:
        small = Model(form, 256, 768, layers=3, distinct=3, heads=4, shared=2, vocabulary=512)
        limit = HALF if form == "F16" else QUANTIZED
        found += cases_of(small, SMALL_PROMPT, SMALL_ANSWER, limit)
    large = cases_of(LARGE, PROMPT, ANSWER, QUANTIZED)
    return [*found, *large, *grid_cases(*GRIDS)]


def cases_of(model: Model, prompt: int, answer: int, limit: float) -> Iterator[Case]:
    """A prompt, and single tokens."""
    is_large = model == LARGE
    size = f"{model.form} {model.layers} layers of {model.width}"

    def on_cpu(function: Callable[..., Array]) -> Callable[[Array], Array]:
        return functools.partial(function, model, is_on_gpu=False)

    products = model.product_weights() if is_large else 0
    form = FORMATS[model.form]
    head = model.vocabulary * model.width
    yield Case(
        name=f"prompt {size}, {prompt} tokens",
        inputs=lambda seed: tokens_of(model, prompt, seed),
        call=functools.partial(answer_prompt, model),
        expected=lambda tokens: logits(model, tokens, 1),
        limit=limit,
        operations=2 * (prompt * products + head),
        precision="int8",  # where the GPU has the instructions, else fp16
        rival=on_cpu(answer_prompt) if is_large else None,
        rival_name="the same on the CPU",
        is_timed=is_large,
        is_quick=not is_large,  # reference and rival take seconds
        memory=2 << 30,
    )
    yield Case(
        name=f"generate {size}, {answer} tokens",
        inputs=lambda seed: tokens_of(model, answer, seed),
        call=functools.partial(answer_tokens, model),
        expected=lambda tokens: logits(model, tokens, answer),
        limit=limit,
        bytes=answer * (products + head) * form.size // form.weights,  # every weight, each token
        rival=on_cpu(answer_tokens) if is_large else None,
        rival_name="the same on the CPU",
        is_timed=is_large,
        memory=2 << 30,
    )
