"""bitsandbytes: LLM.int8, NF4 and FP4 at the layers of a 7B model, 8-bit AdamW, requests at once.

References are written from the formats' definitions and share no code with the package:

- int8: a row's codes are round(127 x / absmax of the row) (https://arxiv.org/abs/2208.07339);
- NF4: 16 quantiles of a normal distribution, blocks of 64 (https://arxiv.org/abs/2305.14314);
- FP4: a sign, two bits of exponent, one of mantissa, divided by the largest;
- dynamic 8-bit, of optimizer states: a decimal exponent in unary and a fraction in the bits that
  are left, blocks of 256 (https://arxiv.org/abs/1511.04561, https://arxiv.org/abs/2110.02861).
"""

from __future__ import annotations

import concurrent.futures
import functools
import importlib.util
import itertools
import math
import os
import queue
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import bitsandbytes
import torch
from grid import (
    case_of,
    cases_of,
    gradients_of,
    in_float64,
    random_of,
    rounding_of,
)
from perf_case import Case, Sweep
from torch import nn
from torch.nn.functional import embedding, layer_norm, linear, scaled_dot_product_attention, silu
from torch.optim.adamw import adamw as torch_adamw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGE = "bitsandbytes"
FRAMEWORK = "torch"
# BNB_DISABLE is not the package's: `sweep` takes the float16 path where it is 1.
VARIABLES = ("BNB_CUDA_VERSION", "BNB_DISABLE")

UNTOUCHED = (
    "pages in the host's memory, LAMB, LARS, norms of updates and percentile clipping",
    "double quantization, products of sparse matrices, igemm",
    "modules of nn besides what their functions are called with",
    "quantizing NaN and infinities, which have no code; more than 2^31 elements, which are 32 bits",
)
DEVICE = "cuda"
Inputs = tuple[torch.Tensor, ...]
Shape = tuple[int, int]

# Rows and columns of weights: attention and MLP of Llama 2 7B, MLP of Mistral 7B and Llama 3 8B.
MIDDLE = (11008, 4096)
SHAPES = ((4096, 4096), MIDDLE, (4096, 14336))
BATCH = 2048  # tokens of a prompt
BLOCK_4BIT = 64  # values that share a scale
BLOCK_8BIT = 256  # of optimizer states
OUTLIER = 6.0  # LLM.int8 keeps columns with values from here on in fp16

# The limits. A rounding to fp16 is wrong by at most 4.9e-4 of the value and by 2e-4 in the mean.
DEQUANTIZED = 1e-3  # one such rounding
MATMUL = 2e-3  # up to five: scale, code, their product, its product with the input, the output
MATMUL_BF16 = 1.6e-2  # bf16 has three bits less
# A value in the middle between two codes may get either. Of fp16 values about one in 10,000 is
# there in FP4, whose middles are fractions like 5/12; the two bytes then differ by a tenth.
CODES = 1e-2
# Such values can share a block: FP4's codes beside each other are up to five numbers apart, a byte
# then half of the mean, which is 0.034 of a block of 256 bytes. Of 90,000 some hold two or three.
FP4_BLOCK = {"block_factor": 10.0, "block_reason": "a value in the middle may get either code"}
EXACT = 1e-9  # sums of integers
# Against weights that were never quantized. int8: steps are 1/127 of a row's largest, about four
# standard deviations, so that each factor is wrong by 4 / 127 / sqrt(12) of its own deviation.
INT8_LOSS = 2e-2
# Of a normal variable NF4 loses 9 %, FP4 12 %, as their codes on random blocks of 64 give.
LOSS = {"nf4": 0.11, "fp4": 0.15}
UPDATE = 1e-4  # float32, with the GPU's fast division and power
# The first moment lies on 128 steps each side, coarsest from a tenth of a block's largest on:
# 0.9 / 64 / sqrt(12) of it, or 1.2 % of a normal variable with a block's largest at 2.9.
STATES = 2e-2
# Of three steps from nothing, whose moments were rounded up to twice: less than of the moments,
# of which the second counts by its root, and the first step uses what was never rounded.
THREE_STEPS = STATES
# 0.26 in one block of 256 on an H100, 13 times the limit: an element whose second moment was
# rounded to the least step that there is moves by another amount than it should.
THREE_STEPS_BLOCK = {"block_factor": 33.0, "block_reason": "small second moments lie on few steps"}


def nf4_codes() -> list[float]:
    """Quantiles of a normal distribution: eight above zero, zero, seven below; the largest is 1."""
    tail = 0.9677083  # the middle between 1 - 1/30 and 1 - 1/32
    quantile = statistics.NormalDist().inv_cdf
    above = [quantile(tail + (0.5 - tail) * i / 8) for i in range(8)]
    below = [-quantile(tail + (0.5 - tail) * i / 7) for i in range(7)]
    return sorted(value / above[0] for value in (*above, 0.0, *below))


def fp4_codes() -> list[float]:
    """By code: subnormals are 0 and 1/16, then exponents 2, 3, 1 as their bits 01, 10, 11 say."""
    sizes = (0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0)
    return [sign * size / 12 for sign in (1, -1) for size in sizes]


def dynamic_codes(*, is_signed: bool) -> list[float]:
    """Decades from 1e-6 to 1, each cut in twice as many pieces as the one below it, 0 and 1."""
    codes = [0.0, 1.0]
    for decade in range(7):
        pieces = 2**decade * (1 if is_signed else 2)
        edges = [0.1 + 0.9 * i / pieces for i in range(pieces + 1)]
        middles = [
            (low + high) / 2 * 10.0 ** (decade - 6) for low, high in itertools.pairwise(edges)
        ]
        codes += [*middles, *(-middle for middle in middles)] if is_signed else middles
    return sorted(codes)


CODES_OF = {"nf4": nf4_codes(), "fp4": fp4_codes()}
SIGNED = dynamic_codes(is_signed=True)
UNSIGNED = dynamic_codes(is_signed=False)


def table(codes: list[float], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Codes on the GPU."""
    return torch.tensor(codes, device=DEVICE, dtype=dtype)


def random(seed: int) -> Callable[..., torch.Tensor]:
    """A source of normal variables in fp16."""
    generator = torch.Generator(DEVICE).manual_seed(seed)

    def draw(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
        return torch.randn(*shape, device=DEVICE, dtype=dtype, generator=generator)

    return draw


def random_bytes(seed: int, count: int) -> torch.Tensor:
    """Every byte is as likely."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randint(0, 256, (count,), device=DEVICE, dtype=torch.uint8, generator=generator)


# Blocks of values that share a scale.


def encode(values: torch.Tensor, codes: list[float], block: int) -> Inputs:
    """The number of the code next to each value, and the largest size of each block."""
    blocks = values.float().reshape(-1, block)
    largest = blocks.abs().amax(1)
    distinct = {code: number for number, code in reversed(list(enumerate(codes)))}  # one zero
    ordered = table(sorted(distinct))
    middles = (ordered[1:] + ordered[:-1]) / 2
    numbers = torch.tensor([distinct[code] for code in sorted(distinct)], device=DEVICE)
    found = numbers[torch.bucketize(blocks / largest[:, None], middles)]
    return found.to(torch.uint8).reshape(values.shape), largest


def decode(numbers: torch.Tensor, largest: torch.Tensor, codes: list[float]) -> torch.Tensor:
    """The values in float64."""
    found = table(codes, torch.float64)[numbers.long()]
    return (found.reshape(len(largest), -1) * largest[:, None].double()).reshape(numbers.shape)


def pack(numbers: torch.Tensor) -> torch.Tensor:
    """Two to a byte, the first in its upper half."""
    first, second = numbers.reshape(-1, 2).unbind(1)
    return ((first << 4) | second).reshape(-1, 1)


def unpack(packed: torch.Tensor, shape: Shape) -> torch.Tensor:
    """Numbers of the codes."""
    flat = packed.reshape(-1)
    return torch.stack((flat >> 4, flat & 15), dim=1).reshape(shape)


# LLM.int8: a scale for each row.


def rows_to_int8(rows: torch.Tensor) -> Inputs:
    """Codes, and the largest size of each row."""
    largest = rows.float().abs().amax(1)
    return torch.round(rows.float() * (127 / largest[:, None])).to(torch.int8), largest


def int8_product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Exact: float64 holds every sum of int8 products of such lengths."""
    return x.double() @ weight.double().T


def int8_inputs(shape: Shape, tokens: int, seed: int) -> Inputs:
    """Input in fp16, int8 codes and scales of weight and input, both again in fp16."""
    draw = random(seed)
    weight, weight_scales = rows_to_int8(draw(*shape))
    x = draw(tokens, shape[1])
    codes, scales = rows_to_int8(x)
    plain = (weight * (weight_scales[:, None] / 127)).half()
    return x, codes, scales, weight, weight_scales, plain


def int8_quantize(x: torch.Tensor) -> Inputs:
    """The package's, without outliers."""
    codes, scales, _ = bitsandbytes.functional.int8_vectorwise_quant(x)
    return codes, scales


def int8_sums(*values: torch.Tensor) -> torch.Tensor:
    """The package's product of codes."""
    _, codes, _, weight, *_ = values
    return bitsandbytes.functional.int8_linear_matmul(codes, weight)


def exact_sums(*values: torch.Tensor) -> torch.Tensor:
    """The product of codes."""
    _, codes, _, weight, *_ = values
    return int8_product(codes, weight)


def int8_matmul(*values: torch.Tensor) -> torch.Tensor:
    """The package's product of codes, scaled to fp16."""
    _, _, scales, _, weight_scales, _ = values
    return bitsandbytes.functional.int8_mm_dequant(int8_sums(*values), scales, weight_scales)


def exact_int8(*values: torch.Tensor) -> torch.Tensor:
    """Product of the codes, scaled in float64."""
    _, codes, scales, weight, weight_scales, _ = values
    return int8_product(codes, weight) * (scales[:, None].double() * weight_scales / 127**2)


def linear8bit(x: torch.Tensor, codes: Inputs, threshold: float = 0.0) -> torch.Tensor:
    """What a `Linear8bitLt` does with its weight's codes and scales: quantize, multiply, scale."""
    state = bitsandbytes.MatmulLtState()
    state.CB, state.SCB = codes
    state.has_fp16_weights = state.is_training = False
    return bitsandbytes.matmul(x, state.CB, state=state, threshold=threshold)


def int8_linear(*values: torch.Tensor) -> torch.Tensor:
    """Of an input in fp16, without outliers."""
    return linear8bit(values[0], values[3:5])


def outlier_linear(*values: torch.Tensor) -> torch.Tensor:
    """Of an input in fp16, whose columns with outliers stay so."""
    return linear8bit(values[0], values[3:5], OUTLIER)


def quantized_int8(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Weight and input quantized by the package, and their product."""
    return linear8bit(x, int8_quantize(weight))


def plain_linear(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
    """PyTorch's in fp16, with the weight that stands last."""
    return linear(x, others[-1])


def outlier_inputs(shape: Shape, tokens: int, seed: int) -> Inputs:
    """As `int8_inputs`, with every 512th column of the input ten times as large."""
    x, codes, scales, *others = int8_inputs(shape, tokens, seed)
    x[:, ::512] *= 10
    return x, codes, scales, *others


def exact_outliers(*values: torch.Tensor) -> torch.Tensor:
    """Columns with outliers as they are, the others as int8 codes."""
    x, _, _, weight, weight_scales, plain = values
    outliers = x.abs() >= OUTLIER
    columns = outliers.any(0)
    codes, scales = rows_to_int8(x.masked_fill(outliers, 0))
    codes[:, columns] = 0
    kept = (x.double() * columns) @ (weight.double() * (weight_scales[:, None] / 127)).T
    return kept + exact_int8(x, codes, scales, weight, weight_scales, plain)


def linear_inputs(shape: Shape, tokens: int, seed: int) -> Inputs:
    """Input and weight in fp16."""
    draw = random(seed)
    return draw(tokens, shape[1]), draw(*shape)


def exact_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """As if nothing were quantized, in float32."""
    return linear(x.float(), weight.float())


def int8_cases() -> Iterator[Case]:
    """Quantize and multiply, with a scale for each row."""
    for shape in SHAPES:
        size = f"{shape[0]}x{shape[1]}"
        count = shape[0] * shape[1]

        def make(seed: int, shape: Shape = shape) -> Inputs:
            return (random(seed)(*shape),)

        yield Case(
            name=f"int8 quantize {size}",
            inputs=make,
            call=int8_quantize,
            expected=rows_to_int8,
            limit=CODES,
            bytes=3 * count,  # fp16 is read, int8 written
            is_timed=shape == MIDDLE,
            is_quick=shape == MIDDLE,
            memory=24 * count,
        )
        for tokens in (1, BATCH):

            def make_both(seed: int, shape: Shape = shape, tokens: int = tokens) -> Inputs:
                return int8_inputs(shape, tokens, seed)

            outside = tokens * (shape[0] + shape[1])  # values of input and output
            matmul = Case(
                name=f"int8 matmul {tokens} tokens {size}",
                inputs=make_both,
                call=int8_matmul,
                expected=exact_int8,
                limit=MATMUL,
                bytes=count + 2 * outside if tokens == 1 else 0,
                operations=2 * tokens * count,
                precision="int8",
                rival=plain_linear,
                rival_name="torch linear fp16",
                is_timed=tokens == BATCH,
                is_quick=shape == MIDDLE,
                memory=32 * count + 32 * outside,
            )
            yield matmul
            if shape == MIDDLE:
                yield Case(
                    name=f"int8 linear {tokens} tokens {size}",
                    inputs=make_both,
                    call=int8_linear,
                    expected=exact_int8,
                    limit=MATMUL,
                    bytes=matmul.bytes,
                    operations=matmul.operations,
                    precision="int8",
                    rival=plain_linear,
                    rival_name="torch linear fp16",
                    memory=matmul.memory,
                )
    small = SHAPES[0]
    checks: list[tuple[str, Callable[..., Any], Callable[..., Any], Callable[..., Any], float]] = [
        ("int8 sums 256 tokens", int8_inputs, int8_sums, exact_sums, EXACT),
        (
            "int8 linear with outliers 256 tokens",
            outlier_inputs,
            outlier_linear,
            exact_outliers,
            MATMUL,
        ),
        ("int8 against float32 256 tokens", linear_inputs, quantized_int8, exact_linear, INT8_LOSS),
    ]
    for name, source, call, expected, limit in checks:
        yield Case(
            name=f"{name} {small[0]}x{small[1]}",
            inputs=lambda seed, source=source: source(small, 256, seed),
            call=call,
            expected=expected,
            limit=limit,
            has_own_kernels=call is not int8_sums,  # those are cuBLASLt's
            is_timed=False,
            memory=1 << 30,
        )


# NF4 and FP4.


@dataclass(frozen=True)
class Weight4bit:
    """A weight of one shape in one of the formats; its methods are calls and what they should give.

    Attributes:
        kind: `nf4` or `fp4`.
        shape: rows and columns of the weight.
    """

    kind: str
    shape: Shape

    def plain_inputs(self, seed: int) -> Inputs:
        """The weight in fp16; far enough from zero that FP4's second zero doesn't occur."""
        weight = random(seed)(*self.shape)
        return (weight + torch.where(weight < 0, -0.02, 0.02).half(),)

    def inputs(self, seed: int) -> Inputs:
        """Any code at any place: bytes, scales, and the package's table of codes."""
        count = self.shape[0] * self.shape[1]
        packed = random_bytes(seed, count // 2).reshape(-1, 1)
        scales = 1 + random(seed)(count // BLOCK_4BIT, dtype=torch.float32).abs()
        return packed, scales, bitsandbytes.functional.get_4bit_type(self.kind, device=DEVICE)

    def matmul_inputs(self, tokens: int, dtype: torch.dtype, seed: int) -> Inputs:
        """Input, bytes, scales, codes, and the weight as it is without bitsandbytes."""
        packed, scales, codes = self.inputs(seed)
        x = random(seed + 1)(tokens, self.shape[1]).to(dtype)
        return x, packed, scales, codes, self.exact_dequantize(packed, scales, codes).to(dtype)

    def state(self, scales: torch.Tensor, codes: torch.Tensor, dtype: torch.dtype) -> Any:
        """What the package keeps beside the bytes."""
        return bitsandbytes.functional.QuantState(
            absmax=scales,
            shape=torch.Size(self.shape),
            code=codes,
            blocksize=BLOCK_4BIT,
            quant_type=self.kind,
            dtype=dtype,
        )

    def quantize(self, weight: torch.Tensor) -> Inputs:
        """Bytes and scales by the package; its function around it makes a table on the host too."""
        return torch.ops.bitsandbytes.quantize_4bit(weight, BLOCK_4BIT, self.kind, torch.uint8)

    def exact_quantize(self, weight: torch.Tensor) -> Inputs:
        """Bytes and scales by the definition."""
        numbers, largest = encode(weight, CODES_OF[self.kind], BLOCK_4BIT)
        return pack(numbers), largest

    def dequantize(
        self, packed: torch.Tensor, scales: torch.Tensor, codes: torch.Tensor
    ) -> torch.Tensor:
        """The weight in fp16 by the package."""
        state = self.state(scales, codes, torch.float16)
        return bitsandbytes.functional.dequantize_4bit(packed, state)

    def exact_dequantize(
        self, packed: torch.Tensor, scales: torch.Tensor, *_: torch.Tensor
    ) -> torch.Tensor:
        """The weight in float64 by the definition."""
        return decode(unpack(packed, self.shape), scales, CODES_OF[self.kind])

    def matmul(
        self,
        x: torch.Tensor,
        packed: torch.Tensor,
        scales: torch.Tensor,
        codes: torch.Tensor,
        *_: torch.Tensor,
    ) -> torch.Tensor:
        """The package's: one kernel for one token, else dequantize and cuBLAS."""
        state = self.state(scales, codes, x.dtype)
        return bitsandbytes.matmul_4bit(x, packed.t(), quant_state=state)

    def exact_matmul(
        self, x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, *_: torch.Tensor
    ) -> torch.Tensor:
        """The product in float64."""
        return x.double() @ self.exact_dequantize(packed, scales).T

    def quantized(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """A weight quantized by the package, and its product."""
        packed, state = bitsandbytes.functional.quantize_4bit(weight, quant_type=self.kind)
        return bitsandbytes.matmul_4bit(x, packed.t(), quant_state=state)


def cases_4bit(one: Weight4bit) -> Iterator[Case]:
    """Quantize, dequantize and multiply; FP4 is measured at one shape."""
    size = f"{one.shape[0]}x{one.shape[1]}"
    count = one.shape[0] * one.shape[1]
    packed_bytes = count // 2 + 4 * count // BLOCK_4BIT
    is_timed = one.kind == "nf4" or one.shape == MIDDLE
    is_quick = one.kind == "nf4" and one.shape == MIDDLE
    yield Case(
        name=f"{one.kind} quantize {size}",
        inputs=one.plain_inputs,
        call=one.quantize,
        expected=one.exact_quantize,
        limit=CODES,
        **(FP4_BLOCK if one.kind == "fp4" else {}),
        bytes=2 * count + packed_bytes,
        is_timed=is_timed,
        is_quick=is_quick,
        memory=32 * count,
    )
    yield Case(
        name=f"{one.kind} dequantize {size}",
        inputs=one.inputs,
        call=one.dequantize,
        expected=one.exact_dequantize,
        limit=DEQUANTIZED,
        bytes=2 * count + packed_bytes,
        is_timed=is_timed,
        is_quick=is_quick,
        memory=32 * count,
    )
    for tokens in (1, BATCH):
        outside = tokens * (one.shape[0] + one.shape[1])  # values of input and output
        yield Case(
            name=f"{one.kind} matmul {tokens} tokens {size}",
            inputs=lambda seed, tokens=tokens: one.matmul_inputs(tokens, torch.float16, seed),
            call=one.matmul,
            expected=one.exact_matmul,
            limit=MATMUL,
            bytes=packed_bytes + 2 * outside if tokens == 1 else 0,
            operations=2 * tokens * count,
            precision="fp16",
            rival=plain_linear,
            rival_name="torch linear fp16",
            is_timed=is_timed,
            is_quick=is_quick,
            memory=32 * count + 32 * outside,
        )


def checks_4bit(one: Weight4bit) -> Iterator[Case]:
    """In bf16, and against a weight that was never quantized."""
    size = f"{one.shape[0]}x{one.shape[1]}"
    for tokens in (1, 256):
        yield Case(
            name=f"{one.kind} matmul bf16 {tokens} tokens {size}",
            inputs=lambda seed, tokens=tokens: one.matmul_inputs(tokens, torch.bfloat16, seed),
            call=one.matmul,
            expected=one.exact_matmul,
            limit=MATMUL_BF16,
            is_timed=False,
            memory=1 << 30,
        )
    yield Case(
        name=f"{one.kind} against float32 256 tokens {size}",
        inputs=lambda seed: linear_inputs(one.shape, 256, seed),
        call=one.quantized,
        expected=exact_linear,
        limit=LOSS[one.kind],
        is_timed=False,
        memory=1 << 30,
    )


# Dynamic 8-bit codes, and the optimizer whose states they are.


def dynamic_quantize(values: torch.Tensor, codes: torch.Tensor) -> Inputs:
    """The package's, with the codes that were handed over."""
    numbers, state = bitsandbytes.functional.quantize_blockwise(
        values, code=codes, blocksize=BLOCK_8BIT
    )
    return numbers, state.absmax


def exact_dynamic_quantize(values: torch.Tensor, _: object) -> Inputs:
    """The code next to each value."""
    return encode(values, SIGNED, BLOCK_8BIT)


def dynamic_dequantize(
    numbers: torch.Tensor, scales: torch.Tensor, codes: torch.Tensor
) -> torch.Tensor:
    """The package's, to float32."""
    return bitsandbytes.functional.dequantize_blockwise(
        numbers, absmax=scales, code=codes, blocksize=BLOCK_8BIT
    )


def exact_dynamic_dequantize(
    numbers: torch.Tensor, scales: torch.Tensor, _: object
) -> torch.Tensor:
    """The same in float64."""
    return decode(numbers, scales, SIGNED)


RATE, BETAS, EPSILON, DECAY = 1e-3, (0.9, 0.999), 1e-8, 1e-2
STEP = 100  # the step that is measured, with moments as they are by then


def adamw(values: Inputs, step: int) -> Inputs:
    """Weights and moments after a step, from weights, gradient and moments, in float64.

    Decoupled weight decay: https://arxiv.org/abs/1711.05101, algorithm 2.
    """
    weights, gradient, first, second = (one.double() for one in values)
    first = BETAS[0] * first + (1 - BETAS[0]) * gradient
    second = BETAS[1] * second + (1 - BETAS[1]) * gradient**2
    size = (second / (1 - BETAS[1] ** step)).sqrt() + EPSILON
    change = RATE * first / (1 - BETAS[0] ** step) / size
    return weights * (1 - RATE * DECAY) - change, first, second


def optimizer_inputs(shape: Shape, seed: int) -> Inputs:
    """Weights, gradient, codes and scales of both moments, tables; the moments in float32.

    Weights are as small as an update, so that an error of it can't hide in them.
    """
    draw = random(seed)
    weights, gradient, first = (draw(*shape, dtype=torch.float32) for _ in range(3))
    second = 0.5 + torch.rand_like(first)
    first_codes, first_scales = encode(first, SIGNED, BLOCK_8BIT)
    second_codes, second_scales = encode(second, UNSIGNED, BLOCK_8BIT)
    return (
        *(weights * RATE, gradient),
        *(first_codes, second_codes, first_scales, second_scales),
        *(table(SIGNED), table(UNSIGNED)),
        decode(first_codes, first_scales, SIGNED).float(),
        decode(second_codes, second_scales, UNSIGNED).float(),
    )


def step_8bit(*values: torch.Tensor) -> Inputs:
    """A step on copies of weights and moments: inputs are used again."""
    gradient, first_table, second_table = values[1], *values[6:8]
    weights, *moments = (values[i].clone() for i in (0, 2, 3, 4, 5))
    bitsandbytes.functional.optimizer_update_8bit_blockwise(
        *("adam", gradient, weights, *moments[:2], *BETAS, 0.0, 0.0, EPSILON, STEP, RATE),
        *(first_table, second_table, *moments[2:]),
        weight_decay=DECAY,
    )
    return weights, *moments


def updated(*values: torch.Tensor) -> torch.Tensor:
    """Weights after the package's step."""
    return step_8bit(*values)[0]


def exact_update(*values: torch.Tensor) -> torch.Tensor:
    """Weights after a step in float64."""
    return adamw((*values[:2], *values[-2:]), STEP)[0]


def plain_update(*values: torch.Tensor) -> torch.Tensor:
    """Weights after PyTorch's step with moments in float32, on copies too."""
    weights, first, second = values[0].clone(), values[-2].clone(), values[-1].clone()
    torch_adamw(
        *([weights], [values[1]], [first], [second], []),
        [torch.tensor(STEP - 1.0, device=weights.device)],
        fused=True,
        amsgrad=False,
        beta1=BETAS[0],
        beta2=BETAS[1],
        lr=RATE,
        weight_decay=DECAY,
        eps=EPSILON,
        maximize=False,
    )
    return weights


def moments(*values: torch.Tensor) -> Inputs:
    """Both moments after the package's step, decoded."""
    _, first, second, first_scales, second_scales = step_8bit(*values)
    return decode(first, first_scales, SIGNED), decode(second, second_scales, UNSIGNED)


def exact_moments(*values: torch.Tensor) -> Inputs:
    """Both moments after a step in float64."""
    return adamw((*values[:2], *values[-2:]), STEP)[1:]


def three_steps(weights: torch.Tensor, *gradients: torch.Tensor) -> torch.Tensor:
    """What the class changes in three steps from nothing."""
    leaf = nn.Parameter(weights.clone())
    optimizer = bitsandbytes.optim.AdamW8bit(
        [leaf], lr=RATE, betas=BETAS, eps=EPSILON, weight_decay=DECAY
    )
    for gradient in gradients:
        leaf.grad = gradient.clone()
        optimizer.step()
    return leaf.detach() - weights


def exact_three_steps(weights: torch.Tensor, *gradients: torch.Tensor) -> torch.Tensor:
    """The same in float64."""
    now = (weights, torch.zeros_like(weights), torch.zeros_like(weights))
    for step, gradient in enumerate(gradients, start=1):
        now = adamw((now[0], gradient, *now[1:]), step)
    return now[0] - weights


def optimizer_cases() -> Iterator[Case]:
    """Codes of moments, a step with them, and three steps from nothing."""
    size = f"{MIDDLE[0]}x{MIDDLE[1]}"
    count = MIDDLE[0] * MIDDLE[1]

    def codes_and_scales(seed: int) -> Inputs:
        scales = 1 + random(seed)(count // BLOCK_8BIT, dtype=torch.float32).abs()
        return random_bytes(seed, count).reshape(MIDDLE), scales, table(SIGNED)

    yield Case(
        name=f"dynamic 8-bit quantize fp32 {size}",
        inputs=lambda seed: (random(seed)(*MIDDLE, dtype=torch.float32), table(SIGNED)),
        call=dynamic_quantize,
        expected=exact_dynamic_quantize,
        limit=CODES,
        bytes=5 * count,
        is_quick=False,
        memory=32 * count,
    )
    yield Case(
        name=f"dynamic 8-bit dequantize fp32 {size}",
        inputs=codes_and_scales,
        call=dynamic_dequantize,
        expected=exact_dynamic_dequantize,
        limit=DEQUANTIZED,
        bytes=5 * count,
        is_quick=False,
        memory=48 * count,
    )
    yield Case(
        name=f"AdamW 8-bit step fp32 {size}",
        inputs=lambda seed: optimizer_inputs(MIDDLE, seed),
        call=updated,
        expected=exact_update,
        limit=UPDATE,
        # Weights, gradient and two bytes of moments are read, weights and moments written. The
        # copies that keep the inputs as they are move 12 more, the rival's 24 of its 52.
        bytes=16 * count,
        rival=plain_update,
        rival_name="torch AdamW fused, moments in float32",
        memory=120 * count,
    )
    yield Case(
        name="AdamW 8-bit moments fp32 4096x4096",
        inputs=lambda seed: optimizer_inputs(SHAPES[0], seed),
        call=moments,
        expected=exact_moments,
        limit=STATES,
        is_timed=False,
        memory=2 << 30,
    )
    yield Case(
        name="AdamW8bit three steps from nothing fp32 4096x4096",
        inputs=lambda seed: tuple(
            random(4 * seed + i)(*SHAPES[0], dtype=torch.float32) for i in range(4)
        ),
        call=three_steps,
        expected=exact_three_steps,
        limit=THREE_STEPS,
        **THREE_STEPS_BLOCK,
        is_timed=False,
        memory=2 << 30,
    )


# The grids: what `bitsandbytes.functional` offers, in pairs, against the definitions in float64.
# Of a quantized value the distance is compared that a better code would be nearer: one in the
# middle of two may get either.

Row = dict[str, Any]
BLOCKS = (64, 128, 256, 512, 1024, 2048, 4096)
KINDS = ("float16", "bfloat16", "float32")
NEARER = 2e-6  # of a block's largest size: roundings of float32
FOUR_BITS: dict[str, tuple[Any, ...]] = {
    "what": ("quantize", "dequantize", "matmul", "gradient"),
    "kind": ("nf4", "fp4"),
    "dtype": KINDS,
    "block": BLOCKS,
    "shape": ((96, 4096), (48, 320), (1, 64), (40, 25), (7, 13)),
    "tokens": (1, 5, 130),
    "storage": ("uint8", "bfloat16", "float32"),
    "scales": ("plain", "compressed"),
    "values": ("normal", "large", "zeros", "outlier"),
    "stream": ("current", "second"),
}
OFFSET = 1.5  # of compressed scales


def has_4bit(row: Row) -> bool:
    """Leave out what the functions don't take, and what upstream starts on another stream."""
    is_quantized = row["what"] == "quantize"
    # cquantize_blockwise_* get no stream (backends/cuda/ops.py) and run on the default one.
    if is_quantized and (row["stream"] == "second" or row["scales"] == "compressed"):
        return False
    is_product = row["what"] in {"matmul", "gradient"}
    if not is_product and row["tokens"] != 1:
        return False
    rows, columns = row["shape"]
    # Bytes are views of the storage type, which has to hold them all.
    if row["storage"] != "uint8" and rows * columns % 8:
        return False
    # One row: dequantize_4bit can't tell it from a transposed one. One token: rows of whole blocks.
    return not is_product or (rows > 1 and columns % 64 == 0)


def values_of(row: Row, draw: Callable[..., torch.Tensor], *shape: int) -> torch.Tensor:
    """Values to quantize."""
    values = draw(*shape)
    if row["values"] == "zeros":
        values[: max(1, len(values) // 2)] = 0
    if row["values"] == "large":
        values *= 1e3 if row["dtype"] == "float16" else 1e30
    if row["values"] == "outlier":
        values.view(-1)[len(values) // 2] = 1e3
    return values


def inputs_4bit(row: Row, seed: int) -> tuple[Any, ...]:
    """Weight, or its bytes and scales; input, and the gradient of the output."""
    draw = functools.partial(random_of(seed, DEVICE), dtype=row["dtype"])
    rows, columns = row["shape"]
    if row["what"] == "quantize":
        return (values_of(row, draw, *row["shape"]),)
    count = rows * columns
    packed = random_bytes(seed, (count + 1) // 2).reshape(-1, 1)
    blocks = -(-count // row["block"])
    sizes = 0.5 + random_of(seed, DEVICE)(blocks).abs()
    if row["values"] == "large":
        sizes *= 10 if row["dtype"] == "float16" else 1e30
    if row["values"] == "zeros":
        sizes.zero_()
    numbers = random_bytes(seed + 1, blocks) if row["scales"] == "compressed" else None
    outer = 0.2 + random_of(seed, DEVICE)(-(-blocks // BLOCK_8BIT)).abs()
    x = draw(row["tokens"], columns)
    return packed, sizes, numbers, outer, x, draw(row["tokens"], rows)


def state_4bit(row: Row, sizes: Any, numbers: Any, outer: Any) -> Any:
    """What the package keeps beside the bytes."""
    functional = bitsandbytes.functional
    inner = None
    if numbers is not None:
        inner = functional.QuantState(
            absmax=outer, code=table(SIGNED), blocksize=BLOCK_8BIT, dtype=torch.float32
        )
    return functional.QuantState(
        absmax=sizes if numbers is None else numbers,
        shape=torch.Size(row["shape"]),
        code=functional.get_4bit_type(row["kind"], device=DEVICE),
        blocksize=row["block"],
        quant_type=row["kind"],
        dtype=getattr(torch, row["dtype"]),
        offset=None if inner is None else torch.tensor(OFFSET, device=DEVICE),
        state2=inner,
    )


def excess(
    values: torch.Tensor, numbers: torch.Tensor, sizes: torch.Tensor, codes: list[float], block: int
) -> torch.Tensor:
    """How much nearer than the code of each value another is, relative to its block's largest."""
    flat = nn.functional.pad(values.double().reshape(-1), (0, -values.numel() % block))
    chosen = nn.functional.pad(numbers.reshape(-1).long(), (0, -values.numel() % block))
    scales = sizes.double().clamp(min=1e-300).repeat_interleave(block)
    known = table(codes, torch.float64)
    shares = flat / scales
    ordered = known.sort().values
    right = torch.bucketize(shares, ordered).clamp(1, len(codes) - 1)
    nearest = torch.minimum((shares - ordered[right - 1]).abs(), (shares - ordered[right]).abs())
    farther = (shares - known[chosen]).abs() - nearest
    return torch.where(scales > 1e-200, farther, 0)[: values.numel()]


def largest_of(values: torch.Tensor, block: int) -> torch.Tensor:
    """The largest size of each block, of which the last may be shorter."""
    flat = nn.functional.pad(values.double().reshape(-1), (0, -values.numel() % block))
    return flat.reshape(-1, block).abs().amax(1)


def package_4bit(row: Row, *values: Any) -> Any:
    """The package's function."""
    functional = bitsandbytes.functional
    kind = getattr(torch, row["storage"])
    if row["what"] == "quantize":
        [weight] = values
        packed, state = functional.quantize_4bit(
            weight, blocksize=row["block"], quant_type=row["kind"], quant_storage=kind
        )
        flat = packed.view(torch.uint8).reshape(-1)
        numbers = torch.stack((flat >> 4, flat & 15), dim=1).reshape(-1)[: weight.numel()]
        farther = excess(weight, numbers, state.absmax, CODES_OF[row["kind"]], row["block"])
        return farther, state.absmax
    packed, *scales, x, ahead = values
    state = state_4bit(row, *scales)
    packed = packed.reshape(-1).view(kind).reshape(-1, 1)
    if row["what"] == "dequantize":
        return functional.dequantize_4bit(packed, state)

    def product(leaf: torch.Tensor) -> torch.Tensor:
        return bitsandbytes.matmul_4bit(leaf, packed.t(), quant_state=state)

    return product(x) if row["what"] == "matmul" else gradients_of(product, (x,), ahead)


def exact_4bit(row: Row, *values: Any) -> Any:
    """The definition, in float64."""
    if row["what"] == "quantize":
        [weight] = values
        largest = largest_of(weight, row["block"])
        return torch.zeros(weight.numel(), device=DEVICE, dtype=torch.float64), largest
    packed, sizes, numbers, outer, x, ahead = in_float64(values)
    if numbers is not None:
        inner = outer.repeat_interleave(BLOCK_8BIT)[: len(numbers)]
        sizes = table(SIGNED, torch.float64)[numbers.long()] * inner + OFFSET
    rows, columns = row["shape"]
    flat = torch.stack((packed >> 4, packed & 15), dim=1).reshape(-1)[: rows * columns]
    scales = sizes.repeat_interleave(row["block"])[: rows * columns]
    weight = (table(CODES_OF[row["kind"]], torch.float64)[flat.long()] * scales).reshape(rows, -1)
    if row["what"] == "dequantize":
        return weight
    return x @ weight.T if row["what"] == "matmul" else (ahead @ weight,)


def case_4bit(row: Row) -> Case:
    """One function of 4-bit formats."""
    is_product = row["what"] in {"matmul", "gradient"}
    matmul = {"float16": MATMUL, "bfloat16": MATMUL_BF16, "float32": 1e-5}[row["dtype"]]
    limit = matmul if is_product else rounding_of(row["dtype"])
    return case_of(
        row,
        inputs_4bit,
        package_4bit,
        exact_4bit,
        label="4 bits",
        joined={"shape": "x"},
        limit=NEARER if row["what"] == "quantize" else limit,
        units=4.0 if row["what"] == "dequantize" else None,
        is_uniform=True,  # sixteen codes
        same_bits=True,
        memory=1 << 28,
    )


EIGHT_BITS: dict[str, tuple[Any, ...]] = {
    "what": ("quantize", "dequantize"),
    "dtype": ("float32", "float16", "bfloat16"),
    "block": BLOCKS,
    "count": (70000, 1000, 1, 4099),
    "codes": ("signed", "unsigned", "linear"),
    "values": ("normal", "large", "zeros", "outlier"),
    "stream": ("current", "second"),
}
LINEAR = [number / 127 for number in range(-128, 128)]
TABLES = {"signed": SIGNED, "unsigned": UNSIGNED, "linear": LINEAR}


def has_8bit(row: Row) -> bool:
    """Quantizing gets no stream either."""
    return row["what"] == "dequantize" or row["stream"] == "current"


def inputs_8bit(row: Row, seed: int) -> Inputs:
    """Values, or numbers of codes and scales; the codes."""
    codes = table(TABLES[row["codes"]])
    if row["what"] == "quantize":
        draw = functools.partial(random_of(seed, DEVICE), dtype=row["dtype"])
        return values_of(row, draw, row["count"]), codes
    sizes = 0.5 + random_of(seed, DEVICE)(-(-row["count"] // row["block"])).abs()
    if row["values"] == "zeros":
        sizes.zero_()
    return random_bytes(seed, row["count"]), sizes, codes


def package_8bit(row: Row, *values: torch.Tensor) -> Any:
    """The package's function."""
    functional = bitsandbytes.functional
    if row["what"] == "quantize":
        x, codes = values
        numbers, state = functional.quantize_blockwise(x, code=codes, blocksize=row["block"])
        farther = excess(x, numbers, state.absmax, TABLES[row["codes"]], row["block"])
        return farther, state.absmax
    numbers, sizes, codes = values
    kind = getattr(torch, row["dtype"])
    state = functional.QuantState(absmax=sizes, code=codes, blocksize=row["block"], dtype=kind)
    return functional.dequantize_blockwise(numbers, state)


def exact_8bit(row: Row, *values: torch.Tensor) -> Any:
    """The definition, in float64."""
    if row["what"] == "quantize":
        x, _ = values
        largest = largest_of(x, row["block"])
        return torch.zeros(len(x), device=DEVICE, dtype=torch.float64), largest
    numbers, sizes, codes = values
    scales = sizes.double().repeat_interleave(row["block"])[: len(numbers)]
    return codes.double()[numbers.long()] * scales


def case_8bit(row: Row) -> Case:
    """One function of 8-bit codes."""
    is_quantized = row["what"] == "quantize"
    return case_of(
        row,
        inputs_8bit,
        package_8bit,
        exact_8bit,
        label="8 bits",
        limit=NEARER if is_quantized else rounding_of(row["dtype"]),
        units=None if is_quantized else 4.0,
        is_uniform=True,
        same_bits=True,
        memory=1 << 28,
    )


ROWS: dict[str, tuple[Any, ...]] = {
    "what": ("quantize", "sums", "scale", "linear"),
    "tokens": (130, 1, 7),
    "shape": ((96, 512), (40, 100), (17, 64), (8, 4097)),
    "threshold": (0.0, 2.5),
    "bias": ("none", "float16", "bfloat16"),
    "values": ("normal", "zeros", "outlier"),
    "stream": ("current", "second"),
}


def has_row(row: Row) -> bool:
    """Leave out options without effect, and lengths that have no kernel for these."""
    if row["what"] in {"sums", "scale"} and (row["threshold"] or row["values"] != "normal"):
        return False
    if row["what"] != "scale" and row["bias"] != "none":
        return False
    # Outliers are read back by the host (argwhere), in its own order of streams.
    if row["threshold"] and row["stream"] == "second":
        return False
    return row["what"] != "linear" or row["shape"][1] % 4 == 0


def row_inputs(row: Row, seed: int) -> tuple[Any, ...]:
    """Input in fp16; codes and scales of input and weight; sums, bias."""
    draw = functools.partial(random_of(seed, DEVICE), dtype="float16")
    rows, columns = row["shape"]
    weight, weight_scales = rows_to_int8(draw(rows, columns))
    x = draw(row["tokens"], columns)
    codes, scales = rows_to_int8(x)
    if row["values"] == "zeros":
        x[0] = 0
    if row["values"] == "outlier":
        x[-1, columns // 2] = 60
    sums = int8_product(codes, weight).to(torch.int32)
    bias = None if row["bias"] == "none" else draw(rows).to(getattr(torch, row["bias"]))
    return x, codes, scales, weight, weight_scales, sums, bias


def package_row(row: Row, *values: Any) -> Any:
    """The package's function."""
    x, codes, scales, weight, weight_scales, sums, bias = values
    functional = bitsandbytes.functional
    if row["what"] == "sums":
        return functional.int8_linear_matmul(codes, weight)
    if row["what"] == "scale":
        return functional.int8_mm_dequant(sums, scales, weight_scales, bias=bias)
    if row["what"] == "linear":
        return linear8bit(x, (weight, weight_scales), row["threshold"])
    found, sizes, _ = functional.int8_vectorwise_quant(x, threshold=row["threshold"])
    kept, largest = without_outliers(row, x)
    shares = kept * (127 / largest.clamp(min=1e-300)[:, None])
    return ((found - shares).abs() - 0.5).clamp(min=0), sizes


def without_outliers(row: Row, x: torch.Tensor) -> Inputs:
    """The input without columns that hold an outlier; the largest size of each row's others."""
    is_far = (x.abs() >= row["threshold"]) if row["threshold"] else torch.zeros_like(x, dtype=bool)
    kept = x.double().masked_fill(is_far, 0)
    return kept.masked_fill(is_far.any(0), 0), kept.abs().amax(1)


def exact_row(row: Row, *values: Any) -> Any:
    """The definition, in float64."""
    x, codes, scales, weight, weight_scales, sums, bias = values
    if row["what"] == "sums":
        return int8_product(codes, weight)
    if row["what"] == "scale":
        found = sums * (scales[:, None].double() * weight_scales / 127**2)
        return found if bias is None else found + bias.double()
    kept, largest = without_outliers(row, x)
    if row["what"] == "quantize":
        return torch.zeros_like(kept), largest
    columns = (x.abs() >= row["threshold"]).any(0) if row["threshold"] else None
    plain = weight.double() * (weight_scales[:, None].double() / 127)
    rounded = torch.round(kept.float() * (127 / largest.float().clamp(min=1e-30)[:, None])).double()
    found = (rounded * largest[:, None] / 127) @ plain.T
    return found if columns is None else found + (x.double() * columns) @ plain.T


def row_case(row: Row) -> Case:
    """One function of LLM.int8."""
    limits = {"quantize": 1e-3, "sums": EXACT, "scale": DEQUANTIZED, "linear": MATMUL}
    return case_of(
        row,
        row_inputs,
        package_row,
        exact_row,
        label="int8",
        joined={"shape": "x"},
        limit=limits[row["what"]],
        has_own_kernels=row["what"] != "sums",  # those are cuBLASLt's
        same_bits=True,
        memory=1 << 28,
    )


OPTIMIZERS: dict[str, tuple[Any, ...]] = {
    "name": ("adam", "momentum", "rmsprop", "adagrad", "lion", "ademamix"),
    "bits": (32, 8),  # of states
    "dtype": ("float32", "float16", "bfloat16"),
    "count": (5000, 1, 1000, 4099),
    "decay": (0.0, DECAY),
    "step": (1, STEP),
    "scale": (1.0, 0.5),  # of gradients
}
BETA3, ALPHA = 0.9999, 5.0  # of AdEMAMix
SLOW = 2  # its states of the first moment
HAS_SECOND = {"adam", "ademamix"}


def has_optimizer(row: Row) -> bool:
    """32-bit states have bf16 gradients for three of them (str2optimizer32bit in ops.py).

    Lion's decay is left out: upstream's own implementations differ in it.
    """
    if row["name"] == "lion" and row["decay"]:
        return False
    is_wide = row["bits"] == 32
    return not is_wide or row["dtype"] != "bfloat16" or row["name"] in {*HAS_SECOND, "lion"}


def optimizer_row_inputs(row: Row, seed: int) -> Inputs:
    """Weights as small as an update, gradient, moments; of 8 bits as they can be stored."""
    draw = random_of(seed, DEVICE)
    count = row["count"]
    weights, gradient = (draw(count, dtype=row["dtype"]) for _ in range(2))
    first = draw(SLOW, count) if row["name"] == "ademamix" else draw(count)
    if row["name"] in {"rmsprop", "adagrad"}:
        first = 0.5 + first.abs()
    return weights * RATE, gradient, first, 0.5 + draw(count).abs()


def stored(values: torch.Tensor, codes: list[float]) -> Inputs:
    """Numbers of codes and scales; each row has blocks of its own."""
    rows = values.reshape(-1, values.shape[-1])
    padded = nn.functional.pad(rows, (0, -rows.shape[1] % BLOCK_8BIT))
    numbers, largest = encode(padded, codes, BLOCK_8BIT)
    return numbers[:, : rows.shape[1]].reshape(values.shape), largest.reshape(
        *values.shape[:-1], -1
    )


def restored(state: Inputs, codes: list[float]) -> torch.Tensor:
    """What is stored, in float64."""
    numbers, largest = state
    scales = largest.double().repeat_interleave(BLOCK_8BIT, -1)[..., : numbers.shape[-1]]
    return table(codes, torch.float64)[numbers.long()] * scales


def package_step(row: Row, *values: torch.Tensor) -> Any:
    """What the package's step changes; of 32 bits also the moments."""
    before, gradient, first, second = values
    weights, name = before.clone(), row["name"]
    functional = bitsandbytes.functional
    has_second = name in HAS_SECOND
    if row["bits"] == 32:
        states = [first.clone(), *([second.clone()] if has_second else [])]
        functional.optimizer_update_32bit(
            *(name, gradient, weights, states[0], BETAS[0], EPSILON, row["step"], RATE),
            state2=states[1] if has_second else None,
            beta2=BETAS[1],
            beta3=BETA3,
            alpha=ALPHA,
            weight_decay=row["decay"],
            gnorm_scale=row["scale"],
        )
        return weights, *states
    numbers, scales = stored(first, SIGNED)
    others = stored(second, UNSIGNED) if has_second else (None, None)
    functional.optimizer_update_8bit_blockwise(
        *(name, gradient, weights, numbers, others[0], *BETAS, BETA3, ALPHA, EPSILON),
        *(row["step"], RATE, table(SIGNED), table(UNSIGNED) if has_second else None),
        *(scales, others[1]),
        weight_decay=row["decay"],
        gnorm_scale=row["scale"],
    )
    return weights


def exact_step(row: Row, *values: torch.Tensor) -> Any:
    """The same in float64."""
    weights, gradient, first, second = values
    name, step = row["name"], row["step"]
    if row["bits"] == 8:
        first = restored(stored(first, SIGNED), SIGNED)
        second = restored(stored(second, UNSIGNED), UNSIGNED)
    weights, gradient, first, second = in_float64((weights, gradient, first, second))
    gradient = gradient * row["scale"]
    is_two = name in HAS_SECOND
    if is_two:
        weights = weights * (1 - RATE * row["decay"])
    else:
        gradient = gradient + row["decay"] * weights
    if is_two:
        second = BETAS[1] * second + (1 - BETAS[1]) * gradient**2
        size = (second / (1 - BETAS[1] ** step)).sqrt() + EPSILON
        betas = table([BETAS[0], BETA3], torch.float64)[: first.dim(), None]
        betas = betas if name == "ademamix" else betas[0]
        first = betas * first + (1 - betas) * gradient
        fast = first[0] if name == "ademamix" else first
        slow = ALPHA * first[1] if name == "ademamix" else 0
        change = (fast / (1 - BETAS[0] ** step) + slow) / size
    elif name == "momentum":
        first = gradient if step == 1 else BETAS[0] * first + gradient
        change = first
    elif name == "lion":
        change = (BETAS[0] * first + (1 - BETAS[0]) * gradient).sign()
        first = BETAS[1] * first + (1 - BETAS[1]) * gradient
    else:
        kept = BETAS[0] if name == "rmsprop" else 1.0
        first = kept * first + (1 - kept if name == "rmsprop" else 1.0) * gradient**2
        change = gradient / (first.sqrt() + EPSILON)
    weights = weights - RATE * change
    if row["bits"] == 8:
        return weights
    return (weights, first, second) if is_two else (weights, first)


def optimizer_case(row: Row) -> Case:
    """A step of an optimizer."""
    return case_of(
        row,
        optimizer_row_inputs,
        package_step,
        exact_step,
        label="optimizer",
        limit=max(UPDATE, 2 * rounding_of(row["dtype"])),
        same_bits=True,
        memory=1 << 26,
    )


GRIDS = (
    (FOUR_BITS, has_4bit, case_4bit),
    (EIGHT_BITS, has_8bit, case_8bit),
    (ROWS, has_row, row_case),
    (OPTIMIZERS, has_optimizer, optimizer_case),
)


def cases() -> list[Case]:
    """int8 and NF4 at every shape, FP4 at one (others are checked), the 8-bit optimizer."""
    found = list(int8_cases())
    for kind in CODES_OF:
        for shape in SHAPES:
            found += cases_4bit(Weight4bit(kind, shape))
        found += checks_4bit(Weight4bit(kind, SHAPES[0]))
    return [*found, *optimizer_cases(), *cases_of(*GRIDS)]


# Requests by several clients at once.

WIDTH, LAYERS, HEADS, INNER, VOCABULARY = 2048, 8, 16, 5504, 8192  # 438 million weights
PROMPT, ANSWER = 64, 32  # tokens


def make_linear(rows: int, columns: int, draw: Callable[..., torch.Tensor]) -> nn.Module:
    """A layer with random weights: NF4 by bitsandbytes, or fp16 where BNB_DISABLE is 1."""
    weight = draw(rows, columns) / math.sqrt(columns)
    if is_disabled():
        layer = nn.Linear(columns, rows, bias=False, device="meta")
        layer.weight = nn.Parameter(weight, requires_grad=False)
        return layer
    packed = bitsandbytes.nn.Linear4bit(
        columns, rows, bias=False, compute_dtype=torch.float16, quant_type="nf4", device="meta"
    )
    packed.weight = bitsandbytes.nn.Params4bit(
        weight.cpu(), requires_grad=False, compress_statistics=False, quant_type="nf4"
    ).to(DEVICE)
    return packed


def is_disabled() -> bool:
    """BNB_DISABLE=1 asks for the float16 path."""
    return os.environ.get("BNB_DISABLE") == "1"


class Layer:
    """Attention and a gated MLP, each after a norm and beside a shortcut.

    Args:
        draw: a source of random weights.
    """

    def __init__(self, draw: Callable[..., torch.Tensor]) -> None:
        self.mix = make_linear(3 * WIDTH, WIDTH, draw)
        self.out = make_linear(WIDTH, WIDTH, draw)
        self.up = make_linear(2 * INNER, WIDTH, draw)
        self.down = make_linear(WIDTH, INNER, draw)

    def forward(self, x: torch.Tensor, memory: torch.Tensor, before: int) -> torch.Tensor:
        """Of new tokens, where `memory` holds keys and values of those before."""
        length = x.shape[1]
        mixed = self.mix(layer_norm(x, (WIDTH,))).reshape(1, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        memory[0, :, :, before : before + length] = key
        memory[1, :, :, before : before + length] = value
        keys, values = memory[:, :, :, : before + length]
        seen = scaled_dot_product_attention(query, keys, values, is_causal=not before)
        x = x + self.out(seen.transpose(1, 2).reshape(1, length, WIDTH))
        gate, up = self.up(layer_norm(x, (WIDTH,))).chunk(2, dim=-1)
        return x + self.down(silu(gate) * up)


class Transformer:
    """A small language model that knows nothing."""

    def __init__(self) -> None:
        draw = random(0)
        self.words = draw(VOCABULARY, WIDTH)
        self.head = draw(VOCABULARY, WIDTH)
        self.layers = [Layer(draw) for _ in range(LAYERS)]

    def generate(self, prompt: torch.Tensor) -> torch.Tensor:
        """The likeliest next token, so many times over."""
        size = (2, 1, HEADS, PROMPT + ANSWER, WIDTH // HEADS)
        memories = [torch.empty(size, device=DEVICE, dtype=torch.float16) for _ in self.layers]
        tokens = [prompt]
        before = 0
        for _ in range(ANSWER):
            x = embedding(tokens[-1], self.words)
            for layer, memory in zip(self.layers, memories, strict=True):
                x = layer.forward(x, memory, before)
            before += x.shape[1]
            scores = linear(layer_norm(x[:, -1:], (WIDTH,)), self.head)
            tokens.append(scores.argmax(-1))
        if not scores.isfinite().all():
            raise RuntimeError("scores of the next token are not finite")
        return torch.cat(tokens[1:], dim=1)


def load(model: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """A model that transformers knows, by name or folder, as something that answers a prompt.

    Raises:
        RuntimeError: there is no transformers.
    """
    for needed in ("transformers", "accelerate"):
        if importlib.util.find_spec(needed) is None:
            raise RuntimeError(
                f"{model} is loaded through transformers, and there is no {needed} here: name an "
                "environment that has both, -- --python /path/to/bin/python"
            )
    import transformers  # noqa: PLC0415 - only for models by name

    quantized: dict[str, Any] = {}
    if not is_disabled():
        quantized["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype=torch.float16,
        )
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        model, device_map={"": 0}, torch_dtype=torch.float16, **quantized
    ).eval()

    def generate(prompt: torch.Tensor) -> torch.Tensor:
        words = loaded.get_input_embeddings().num_embeddings
        whole: torch.Tensor = loaded.generate(
            prompt % words,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=ANSWER,
            min_new_tokens=ANSWER,
            do_sample=False,
            pad_token_id=0,
        )
        return whole[:, prompt.shape[1] :]

    return generate


def sweep(clients: int, requests: int, model: str | None) -> Sweep:
    """Prompts of random tokens; each client asks again when it has its answer.

    Raises:
        RuntimeError: a model is asked for and there is no transformers, or an answer is wrong.
    """
    kind = "fp16, BNB_DISABLE=1" if is_disabled() else "NF4"
    if model:
        what, generate = f"{model}, {kind}", load(model)
    else:
        own = Transformer()
        what = f"random transformer, {LAYERS} layers of {WIDTH}, {kind}"
        generate = own.generate
    prompts = torch.randint(
        0, VOCABULARY, (requests, 1, PROMPT), generator=torch.Generator().manual_seed(0)
    ).to(DEVICE)
    streams: queue.SimpleQueue[torch.cuda.Stream] = queue.SimpleQueue()
    for _ in range(clients):
        streams.put(torch.cuda.Stream())

    def ask(number: int) -> float:
        stream = streams.get()
        started = time.perf_counter()
        with torch.inference_mode(), torch.cuda.stream(stream):
            answer = generate(prompts[number]).cpu()
        seconds = time.perf_counter() - started
        streams.put(stream)
        if answer.shape != (1, ANSWER):
            raise RuntimeError(f"the answer's shape is {tuple(answer.shape)}")
        return seconds

    torch.cuda.synchronize()  # weights and prompts are there for every stream
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        list(pool.map(ask, [0] * clients))  # warm
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        started = time.perf_counter()
        seconds = tuple(pool.map(ask, range(requests)))
        total = time.perf_counter() - started
    return Sweep(
        what=what,
        seconds=seconds,
        total=total,
        tokens=requests * ANSWER,
        memory=torch.cuda.max_memory_allocated(),
    )
