"""For every named optimization a graph where it fires, and one that is nearly the same where it does not.

At the end: how to run the stage over such a graph, and to compare what goes in with what comes out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper, parser

from pytest_winml.pipeline.optimize import optimize
from pytest_winml.records.stages import MODEL_FILE, OptimizeRequest, StageAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Weight = NDArray[np.generic] | np.generic | tuple[int, ...] | float


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """`appears` and `goes` are node types; `near` differs from `fires` in the one thing that matters.

    Where an optimization cannot fire on the CPU, `near` is the pattern itself. `x64`: other CPUs do not have it.
    """

    name: str
    fires: Callable[[], onnx.ModelProto] | None
    near: Callable[[], onnx.ModelProto]
    appears: str | None = None
    goes: str | None = None
    tolerance: float = 1e-4
    x64: bool = False


def made(signature: str, body: str, opset: int = 17, **weights: Weight) -> onnx.ModelProto:
    return from_text(signature, body, weights, opset)


def from_text(signature: str, body: str, weights: Mapping[str, Weight], opset: int = 17) -> onnx.ModelProto:
    """A model of ONNX's text form. A weight is an array, a scalar, or a shape to fill with reproducible numbers."""
    generator = np.random.default_rng(5)
    graph = parser.parse_graph(f"agraph {signature} {{ {body} }}")
    for name, weight in weights.items():
        if isinstance(weight, tuple):
            array: NDArray[np.generic] = (generator.standard_normal(weight) / 2).astype(np.float32)
        else:
            array = np.asarray(weight, np.float32 if isinstance(weight, float) else None)
        graph.initializer.append(numpy_helper.from_array(array, name))
    for place, node in enumerate(graph.node):
        node.name = f"{node.op_type.lower()}_{place}"
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def ints(*numbers: int) -> NDArray[np.int64]:
    return np.array(numbers, np.int64)


def positive(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(6).uniform(0.5, 1.5, shape).astype(np.float32)


# Convolutions

_IMAGE = "(float[1,3,8,8] x) => (float[1,8,8,8] y)"
_CONV = "c = Conv<pads=[1,1,1,1]>(x, w) "
_W = (8, 3, 3, 3)


def conv_then(body: str, signature: str = _IMAGE, **weights: Weight) -> onnx.ModelProto:
    return from_text(signature, _CONV + body, {"w": _W, **weights})


def conv_bn(*, shared: bool = False) -> onnx.ModelProto:
    signature = "(float[1,3,8,8] x) => (float[1,8,8,8] y, float[1,8,8,8] z)" if shared else _IMAGE
    body = "y = BatchNormalization(c, s, b, m, v) " + ("z = Sigmoid(c)" if shared else "")
    return conv_then(body, signature, s=(8,), b=(8,), m=(8,), v=positive(8))


def conv_add_bn(addend: tuple[int, ...]) -> onnx.ModelProto:
    body = "a = Add(c, k) y = BatchNormalization(a, s, b, m, v)"
    return conv_then(body, k=addend, s=(8,), b=(8,), m=(8,), v=positive(8))


def conv_add_activation(addend: str) -> onnx.ModelProto:
    signature = f"(float[1,3,8,8] x, float[{addend}] z) => (float[1,8,8,8] y)"
    return made(signature, "c = Conv<pads=[1,1,1,1]>(x, w, b) a = Add(c, z) y = Relu(a)", w=_W, b=(8,))


def pad_conv(value: float) -> onnx.ModelProto:
    pads = ints(0, 0, 1, 1, 0, 0, 1, 1)
    return made(_IMAGE, "p = Pad(x, pads, value) y = Conv(p, w)", w=_W, pads=pads, value=value)


# GELU

_ROWS = "(float[1,4,8] x) => (float[1,4,8] y)"


def erf_gelu(divisor: float = math.sqrt(2), *, opset: int = 17, biased: bool = False) -> onnx.ModelProto:
    body = "d = Div(t, root) e = Erf(d) p = Add(e, one) m = Mul(t, p) y = Mul(m, half)"
    first = "t = Add(x, bias) " if biased else "t = Relu(x) "
    return made(_ROWS, first + body, opset, root=divisor, one=1.0, half=0.5, bias=(8,))


def tanh_gelu(cubic: float = 0.044715) -> onnx.ModelProto:
    body = """c = Pow(x, three) s = Mul(c, cubic) a = Add(x, s) f = Mul(a, factor) t = Tanh(f) p = Add(t, one)
              h = Mul(x, half) m = Mul(h, p) y = Relu(m)"""
    return made(_ROWS, body, three=3.0, cubic=cubic, factor=math.sqrt(2 / math.pi), one=1.0, half=0.5)


def quick_gelu(*, of_itself: bool = True) -> onnx.ModelProto:
    signature = "(float[1,4,8] x, float[1,4,8] z) => (float[1,4,8] y)"
    return made(signature, f"a = Mul({'x' if of_itself else 'z'}, k) s = Sigmoid(a) y = Mul(x, s)", k=1.702)


def add_then_gelu() -> onnx.ModelProto:
    signature = "(float[1,4,8] x, float[1,4,8] z) => (float[1,4,8] y)"
    return made(signature, "t = Add(x, z) y = com.microsoft.Gelu(t)")


# Normalizations


def layer_norm(axis: int = -1, *, opset: int = 17, exponent: float = 2.0) -> onnx.ModelProto:
    body = f"""m = ReduceMean<axes=[{axis}]>(x) d = Sub(x, m) p = Pow(d, power) v = ReduceMean<axes=[{axis}]>(p)
              e = Add(v, epsilon) r = Sqrt(e) n = Div(d, r) s = Mul(n, scale) y = Add(s, bias)"""
    return made(_ROWS, body, opset, power=exponent, epsilon=1e-5, scale=(8,), bias=(8,))


def skip_layer_norm(skip: str = "1,4,8") -> onnx.ModelProto:
    signature = f"(float[1,4,8] x, float[{skip}] z) => (float[1,4,8] y)"
    return made(signature, "a = Add(x, z) y = LayerNormalization(a, scale, bias)", scale=(8,), bias=(8,))


def bias_skip_layer_norm(bias: tuple[int, ...]) -> onnx.ModelProto:
    signature = "(float[1,4,8] x, float[1,4,8] z) => (float[1,4,8] y)"
    body = "m = MatMul(x, w) b = Add(m, bias) y = com.microsoft.SkipLayerNormalization(b, z, scale, beta)"
    return made(signature, body, w=(8, 8), bias=bias, scale=(8,), beta=(8,))


def rms_norm(exponent: float = 2.0) -> onnx.ModelProto:
    body = """p = Pow(x, exponent) v = ReduceMean<axes=[-1]>(p) e = Add(v, epsilon) r = Sqrt(e) n = Div(x, r)
              y = Mul(n, scale)"""
    return made(_ROWS, body, exponent=exponent, epsilon=1e-6, scale=(8,))


def embeddings(*, summed: bool = True) -> onnx.ModelProto:
    """BERT's, with what the fusion wants to see after them: three projections and a residual."""
    signature = "(int64[1,4] ids, int64[1,4] kinds) => (float[1,4,8] y)"
    body = f"""words = Gather(word_table, ids) types = Gather(type_table, kinds)
               sizes = Shape(ids) length = Gather(sizes, one) end = Unsqueeze(length, axis)
               slice = Slice(positions, start, end, slice_axis) places = Gather(position_table, slice)
               w1 = {"Add" if summed else "Mul"}(words, types) w2 = Add(w1, places)
               n = LayerNormalization(w2, scale, bias)
               q = MatMul(n, wq) k = MatMul(n, wk) v = MatMul(n, wv) qk = Mul(q, k) qkv = Mul(qk, v) y = Add(n, qkv)"""
    return made(
        signature, body, word_table=(32, 8), type_table=(16, 8), position_table=(20, 8), positions=np.arange(16)[None],
        one=np.int64(1), axis=ints(0), start=ints(0), slice_axis=ints(1),
        scale=(8,), bias=(8,), wq=(8, 8), wk=(8, 8), wv=(8, 8),
    )  # fmt: skip


# Attention


def attention(*, key_bias: bool = True) -> onnx.ModelProto:
    """Self-attention of four heads over eight features, between a residual and two normalizations."""

    def projection(letter: str, order: str) -> str:
        bias = f"{letter}b = Add({letter}m, {letter}_bias)" if letter != "k" or key_bias else "kb = Identity(km)"
        return f"""{letter}m = MatMul(n, {letter}_weight) {bias}
                   {letter}r = Reshape({letter}b, heads) {letter} = Transpose<perm=[{order}]>({letter}r) """

    body = (
        "n = LayerNormalization(x, scale, bias) "
        + projection("q", "0,2,1,3")
        + projection("k", "0,2,3,1")
        + projection("v", "0,2,1,3")
        + """s = MatMul(q, k) d = Div(s, root) p = Softmax<axis=-1>(d) c = MatMul(p, v)
             ct = Transpose<perm=[0,2,1,3]>(c) cr = Reshape(ct, merged) o = MatMul(cr, o_weight) ob = Add(o, o_bias)
             residual = Add(ob, x) y = LayerNormalization(residual, scale, bias)"""
    )
    weights: dict[str, Weight] = {f"{letter}_weight": (8, 8) for letter in "qkvo"}
    weights |= {f"{letter}_bias": (8,) for letter in "qkvo" if letter != "k" or key_bias}
    weights |= {"scale": (8,), "bias": (8,), "root": math.sqrt(2), "heads": ints(1, 4, 4, 2), "merged": ints(1, 4, 8)}
    return from_text(_ROWS, body, weights)


def bias_softmax() -> onnx.ModelProto:
    signature = "(float[2,4,8,8] x, float[2,1,1,8] z) => (float[2,4,8,8] y)"
    return made(signature, "a = Add(x, z) y = Softmax<axis=3>(a)")


# MatMul and Gemm


def matmul_add(rows: str, *, shared: bool = False) -> onnx.ModelProto:
    results = f"(float[{rows},6] y" + (f", float[{rows},6] z)" if shared else ")")
    body = "m = MatMul(x, w) y = Add(m, b) " + ("z = Relu(m)" if shared else "")
    return made(f"(float[{rows},8] x) => {results}", body, w=(8, 6), b=(6,))


def matmul_transpose(order: str) -> onnx.ModelProto:
    signature = "(float[4,4,4] x, float[4,4,4] z) => (float[4,4,4] y)"
    return made(signature, f"t = Transpose<perm=[{order}]>(z) y = MatMul(x, t)")


def matmul_scale(factor: tuple[int, ...] | float) -> onnx.ModelProto:
    signature = "(float[2,4,8] x, float[2,8,4] z) => (float[2,4,4] y)"
    return made(signature, "s = Mul(x, k) y = MatMul(s, z)", k=factor)


def matmul_bn(*, shared: bool = False) -> onnx.ModelProto:
    signature = "(float[4,8] x) => (float[4,6] y" + (", float[4,6] z)" if shared else ")")
    body = "m = MatMul(x, w) y = BatchNormalization(m, s, b, mean, v) " + ("z = Sigmoid(m)" if shared else "")
    return made(signature, body, w=(8, 6), s=(6,), b=(6,), mean=(6,), v=positive(6))


def dynamic_matmul(*, cast_to: int = 1) -> onnx.ModelProto:
    body = f"""q, s, z = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, z, wz) f = Cast<to={cast_to}>(i)
               k = Mul(s, ws) {"y = Mul(f, k)" if cast_to == 1 else "g = Cast<to=1>(f) y = Mul(g, k)"}"""
    weights = np.random.default_rng(7).integers(0, 255, (8, 6)).astype(np.uint8)
    return made("(float[4,8] x) => (float[4,6] y)", body, w=weights, wz=np.uint8(128), ws=0.02)


def gemm_then(body: str, signature: str = "(float[4,8] x) => (float[4,6] y)") -> onnx.ModelProto:
    return made(signature, "g = Gemm(x, w, b) " + body, w=(8, 6), b=(6,))


def gemm_sum(terms: str) -> onnx.ModelProto:
    signature = "(float[4,8] x, float[4,6] z) => (float[4,6] y)"
    return made(signature, f"g = Gemm(x, w) y = Sum({terms})", w=(8, 6))


# Layout


def qlinear_conv() -> onnx.ModelProto:
    body = "y = QLinearConv<pads=[1,1,1,1]>(x, s, z, w, s, z, s, z)"
    weights = np.random.default_rng(8).integers(0, 255, _W).astype(np.uint8)
    signature = "(uint8[1,3,8,8] x) => (uint8[1,8,8,8] y)"
    return made(signature, body, w=weights, s=0.05, z=np.uint8(128))


def wide_conv(size: str, kernel: tuple[int, ...]) -> onnx.ModelProto:
    return made(f"(float[1,32,{size}] x) => (float y)", "y = Conv(x, w)", w=(32, 32, *kernel))


def transposed(last: str) -> onnx.ModelProto:
    body = f"t = Transpose<perm=[0,2,3,1]>(x) s = Softmax<axis=2>(t) y = {last}(s)"
    return made("(float[1,3,4,5] x) => (float y)", body)


def reshape_transpose_reshape(
    shape: tuple[int, ...], order: tuple[int, ...], result: tuple[int, ...]
) -> onnx.ModelProto:
    body = f"s = Reshape(x, first) t = Transpose<perm={list(order)}>(s) y = Reshape(t, last)"
    return made("(float[2,16,12] x) => (float y)", body, first=ints(*shape), last=ints(*result))


# Small ones


def sliced(end: int) -> onnx.ModelProto:
    return made(
        "(float[4,8] x) => (float y)",
        "r = Relu(x) s = Slice(r, b, e, a) y = Sigmoid(s)",
        b=ints(0),
        e=ints(end),
        a=ints(1),
    )


def expanded(*shape: int) -> onnx.ModelProto:
    return made("(float[1,8] x) => (float y)", "r = Relu(x) e = Expand(r, s) y = Sigmoid(e)", s=ints(*shape))


def quantized_twice(pairs: int) -> onnx.ModelProto:
    body = "r0 = Relu(x) " + " ".join(
        f"q{n} = QuantizeLinear(r{n}, s, z) r{n + 1} = DequantizeLinear(q{n}, s, z)" for n in range(pairs)
    )
    return made("(float[4,8] x) => (float[4,8] y)", f"{body} y = Sigmoid(r{pairs})", s=0.05, z=np.uint8(128))


def where(condition: str) -> onnx.ModelProto:
    signature = "(bool[4,8] c, float[4,8] x, float[4,8] z) => (float[4,8] y)"
    body = {"negated": "n = Not(c) y = Where(n, x, z)", "plain": "w = Where(c, x, z) y = Relu(w)"}[condition]
    return made(signature, body)


def gathered(*indices: int) -> onnx.ModelProto:
    body = " ".join(f"g{n} = Gather<axis=1>(x, i{n})" for n in indices)
    total = " ".join(f"t{n} = Add({'g0' if n == 1 else f't{n - 1}'}, g{n})" for n in indices[1:])
    return from_text(
        "(float[2,3,8] x) => (float[2,8] y)",
        f"{body} {total} y = Relu(t{indices[-1]})",
        {f"i{n}": np.int64(n) for n in indices},
    )


def gather_by(indices: str) -> onnx.ModelProto:
    body = {"range": "i = Range(b, e, d) ", "constant": "i = Identity(c) "}[
        indices
    ] + "g = Gather<axis=1>(x, i) y = Relu(g)"
    return made("(float[4,8] x) => (float y)", body, b=np.int64(1), e=np.int64(6), d=np.int64(1), c=ints(1, 2, 3, 4, 5))


_X = "(float[4,8] x) => (float[4,8] y)"
_FUSED_CONV, _FUSED_MATMUL = "com.microsoft.FusedConv", "com.microsoft.FusedMatMul"

PATTERNS = (
    Pattern(name="conv_bn_fusion", fires=conv_bn, near=lambda: conv_bn(shared=True), goes="BatchNormalization"),
    Pattern(
        name="conv_add_fusion",
        fires=lambda: conv_then("y = Add(c, k)", k=(1, 8, 1, 1)),
        near=lambda: conv_then("y = Add(c, k)", k=(1, 1, 1, 8)),
        goes="Add",
    ),
    Pattern(
        name="conv_mul_fusion",
        fires=lambda: conv_then("y = Mul(c, k)", k=(1, 8, 1, 1)),
        near=lambda: conv_then("y = Mul(c, k)", k=(1, 1, 1, 8)),
        goes="Mul",
    ),
    Pattern(
        name="conv_activation_fusion",
        fires=lambda: conv_then("y = Relu(c)"),
        near=lambda: conv_then("y = Softplus(c)"),
        appears=_FUSED_CONV,
        goes="Relu",
    ),
    Pattern(
        name="conv_add_activation_fusion",
        fires=lambda: conv_add_activation("1,8,8,8"),
        near=lambda: conv_add_activation("1,8,1,1"),
        appears=_FUSED_CONV,
        goes="Add",
    ),
    Pattern(
        name="conv_channel_affine_folding",
        fires=lambda: conv_then("m = Mul(c, f) y = Add(m, k)", f=(1, 8, 1, 1), k=(1, 8, 1, 1)),
        near=lambda: conv_then("m = Mul(c, f) y = Add(m, k)", f=(1, 1, 8, 1), k=(1, 8, 1, 1)),
        goes="Mul",
    ),
    Pattern(
        name="conv_add_batch_normalization_folding",
        fires=lambda: conv_add_bn((1, 8, 1, 1)),
        near=lambda: conv_add_bn((1, 1, 8, 1)),
        goes="BatchNormalization",
    ),
    Pattern(name="pad_fusion", fires=lambda: pad_conv(0.0), near=lambda: pad_conv(1.0), goes="Pad"),
    Pattern(name="gelu_fusion", fires=erf_gelu, near=lambda: erf_gelu(1.5), appears="com.microsoft.Gelu", goes="Erf"),
    Pattern(name="gelu_singlegelu", fires=lambda: erf_gelu(opset=20), near=erf_gelu, appears="Gelu", goes="Erf"),
    Pattern(
        name="fast_gelu_fusion",
        fires=tanh_gelu,
        near=lambda: tanh_gelu(0.05),
        appears="com.microsoft.FastGelu",
        goes="Tanh",
    ),
    Pattern(
        name="quick_gelu_fusion",
        fires=quick_gelu,
        near=lambda: quick_gelu(of_itself=False),
        appears="com.microsoft.QuickGelu",
        goes="Sigmoid",
    ),
    Pattern(
        name="bias_gelu_fusion",
        fires=lambda: erf_gelu(biased=True),
        near=add_then_gelu,
        appears="com.microsoft.BiasGelu",
        goes="Erf",
    ),
    Pattern(
        name="gelu_approximation",
        fires=erf_gelu,
        near=lambda: erf_gelu(1.5),
        appears="com.microsoft.FastGelu",
        goes="Erf",
        tolerance=1e-3,
    ),
    Pattern(
        name="layer_norm_fusion",
        fires=layer_norm,
        near=lambda: layer_norm(1),
        appears="LayerNormalization",
        goes="ReduceMean",
    ),
    Pattern(
        name="layernormalization_singlelayernorm",
        fires=layer_norm,
        near=lambda: layer_norm(opset=16),
        appears="LayerNormalization",
        goes="ReduceMean",
    ),
    Pattern(
        name="skip_layer_norm_fusion",
        fires=skip_layer_norm,
        near=lambda: skip_layer_norm("1,4,1"),
        appears="com.microsoft.SkipLayerNormalization",
        goes="LayerNormalization",
    ),
    Pattern(
        name="bias_skip_layer_norm_fusion",
        fires=lambda: bias_skip_layer_norm((8,)),
        near=lambda: bias_skip_layer_norm((4, 8)),
        goes="Add",
    ),
    Pattern(
        name="simplified_layer_norm_fusion",
        fires=rms_norm,
        near=lambda: rms_norm(4.0),
        appears="SimplifiedLayerNormalization",
        goes="ReduceMean",
    ),
    Pattern(
        name="embed_layer_norm_fusion",
        fires=embeddings,
        near=lambda: embeddings(summed=False),
        appears="com.microsoft.EmbedLayerNormalization",
        goes="LayerNormalization",
    ),
    Pattern(
        name="attention_fusion",
        fires=attention,
        near=lambda: attention(key_bias=False),
        appears="com.microsoft.Attention",
        goes="Softmax",
    ),
    Pattern(
        name="bias_softmax_fusion",
        fires=None,
        near=bias_softmax,
    ),
    Pattern(
        name="matmul_add_fusion",
        fires=lambda: matmul_add("4"),
        near=lambda: matmul_add("4", shared=True),
        appears="Gemm",
        goes="MatMul",
    ),
    Pattern(
        name="matmuladd_reshapegemm",
        fires=lambda: matmul_add("2,4"),
        near=lambda: matmul_add("2,4", shared=True),
        appears="Gemm",
        goes="MatMul",
    ),
    Pattern(
        name="matmul_transpose_fusion",
        fires=lambda: matmul_transpose("0,2,1"),
        near=lambda: matmul_transpose("2,1,0"),
        appears=_FUSED_MATMUL,
        goes="Transpose",
    ),
    Pattern(
        name="matmul_scale_fusion",
        fires=lambda: matmul_scale(0.125),
        near=lambda: matmul_scale((8,)),
        appears=_FUSED_MATMUL,
        goes="Mul",
    ),
    Pattern(
        name="matmul_bn_fusion",
        fires=matmul_bn,
        near=lambda: matmul_bn(shared=True),
        appears="Gemm",
        goes="BatchNormalization",
    ),
    Pattern(
        name="dynamic_quantize_matmul_fusion",
        fires=dynamic_matmul,
        near=lambda: dynamic_matmul(cast_to=11),
        appears="com.microsoft.DynamicQuantizeMatMul",
        goes="MatMulInteger",
    ),
    Pattern(
        name="gemm_activation_fusion",
        fires=lambda: gemm_then("y = Relu(g)"),
        near=lambda: gemm_then("y = Erf(g)"),
        appears="com.microsoft.FusedGemm",
        goes="Relu",
    ),
    Pattern(name="gemm_sum_fusion", fires=lambda: gemm_sum("g, z"), near=lambda: gemm_sum("g, z, z"), goes="Sum"),
    Pattern(
        name="gemm_transpose_fusion",
        fires=lambda: made("(float[8,4] x) => (float[4,6] y)", "t = Transpose(x) y = Gemm(t, w)", w=(8, 6)),
        near=lambda: made(
            "(float[4,8] x, float[6,4] z) => (float[4,6] y)", "t = Transpose(z) y = Gemm(x, w, t)", w=(8, 6)
        ),
        goes="Transpose",
    ),
    Pattern(
        name="transpose_optimizer",
        fires=lambda: transposed("Transpose<perm=[0,3,1,2]>"),
        near=lambda: transposed("Sigmoid"),
        goes="Transpose",
    ),
    Pattern(
        name="nhwc_transformer",
        fires=qlinear_conv,
        near=lambda: conv_then("y = Relu(c)"),
        appears="com.microsoft.QLinearConv",
    ),
    Pattern(
        name="nchwc_transformer",
        fires=lambda: wide_conv("8,8", (3, 3)),
        near=lambda: wide_conv("8", (3,)),
        appears="com.microsoft.nchwc.Conv",
        x64=True,
    ),
    Pattern(
        name="highdim_rtr_lowdim_rtr",
        fires=lambda: reshape_transpose_reshape((2, 4, 4, 1, 3, 4), (0, 1, 4, 5, 2, 3), (2, 48, 4)),
        near=lambda: reshape_transpose_reshape((2, 16, 3, 4), (0, 2, 3, 1), (2, 12, 16)),
    ),
    Pattern(name="slice_elimination", fires=lambda: sliced(2**63 - 1), near=lambda: sliced(7), goes="Slice"),
    Pattern(name="expand_elimination", fires=lambda: expanded(1, 8), near=lambda: expanded(4, 8), goes="Expand"),
    Pattern(
        name="unsqueeze_elimination",
        fires=lambda: made(_X, "u = Unsqueeze<axes=[0]>(k) y = Add(x, u)", 12, k=(8,)),
        near=lambda: made(_X, "u = Unsqueeze(k, a) y = Add(x, u)", 13, k=(8,), a=ints(0)),
        goes="Unsqueeze",
    ),
    Pattern(
        name="constant_folding",
        fires=lambda: made(_X, "s = Add(k, l) y = Mul(x, s)", k=(8,), l=(8,)),
        near=lambda: made(_X, "s = Add(k, x) y = Mul(s, l)", k=(8,), l=(8,)),
        goes="Add",
    ),
    Pattern(
        name="double_qdq_pairs_remover",
        fires=lambda: quantized_twice(2),
        near=lambda: quantized_twice(1),
        goes="QuantizeLinear",
    ),
    Pattern(name="not_where_fusion", fires=lambda: where("negated"), near=lambda: where("plain"), goes="Not"),
    Pattern(
        name="gather_slice_to_split_fusion",
        fires=lambda: gathered(0, 1, 2),
        near=lambda: gathered(0, 1),
        appears="Split",
        goes="Gather",
    ),
    Pattern(
        name="gather_to_slice_fusion",
        fires=lambda: gather_by("range"),
        near=lambda: gather_by("constant"),
        appears="Slice",
        goes="Gather",
    ),
)


def optimized(model: onnx.ModelProto, folder: Path, *names: str, base: str = "none", **more: Any) -> StageAnswer:
    """Runs the stage; the models are `source.onnx` and `out/model.onnx` in `folder`."""
    onnx.save(model, folder / "source.onnx")
    (folder / "out").mkdir()
    return optimize(
        OptimizeRequest(
            model_path=str(folder / "source.onnx"),
            base=base,  # type: ignore[arg-type]  # a word of the request
            names=names,
            output_folder=str(folder / "out"),
            **more,
        )
    )


def run(path: Path, feeds: dict[str, NDArray[Any]] | None = None) -> list[NDArray[Any]]:
    """The outputs with every optimization off, for `feeds` or for random ones."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    outputs: list[NDArray[Any]] = session.run(None, feeds or random_feeds(session))
    return outputs


def random_feeds(session: Any) -> dict[str, NDArray[Any]]:
    generator = np.random.default_rng(3)
    makers: dict[str, Callable[[list[int]], NDArray[Any]]] = {
        "tensor(float)": lambda shape: generator.standard_normal(shape).astype(np.float32),
        "tensor(bool)": lambda shape: generator.integers(0, 2, shape).astype(bool),
        "tensor(uint8)": lambda shape: generator.integers(0, 256, shape).astype(np.uint8),
        "tensor(int64)": lambda shape: generator.integers(0, 16, shape),
    }
    return {one.name: makers[one.type](one.shape) for one in session.get_inputs()}


def largest_difference(folder: Path) -> float:
    """Between the outputs of the model that went in and of the one that came out."""
    before, after = run(folder / "source.onnx"), run(folder / "out" / MODEL_FILE)
    return max(
        float(np.abs(old.astype(float) - new.astype(float)).max()) for old, new in zip(before, after, strict=True)
    )


def listed(answer: StageAnswer, fact: str) -> list[str]:
    found = answer.facts[fact]
    assert isinstance(found, list | dict)
    return list(found)
