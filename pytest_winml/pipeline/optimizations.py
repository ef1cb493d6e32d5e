"""The optimizations that have a name: what each does, who does it, and what it needs.

A name is switched on with what it needs, and nothing else is. Most are graph transformers of ONNX Runtime or rules
inside its rule-based ones; two are fusions of `onnxruntime.transformers`; one is a rewrite of our own. Nothing here
loads a runtime: a plan can be checked anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_winml.errors import UsageProblem, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BASIC, EXTENDED, LAYOUT = 1, 2, 3
Backend = Literal["transformer", "fusion", "rewrite", "names"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimization:
    """One row. `does` is one sentence, `transformers` are ONNX Runtime's names and `level` the level they live at.

    A row of the backend `names` only stands for the ones it `needs`. `before` are transformers of ORT's basic level
    that have to wait, since they take the pattern apart that this one looks for. `never` is why it cannot fire.
    `by_cpu` says that the result depends on the CPU it is made on.
    """

    name: str
    does: str
    backend: Backend = "transformer"
    transformers: tuple[str, ...] = ()
    level: int = BASIC
    config: tuple[tuple[str, str], ...] = ()
    needs: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    never: str = ""
    by_cpu: bool = False


def _basic(name: str, does: str, *transformers: str, needs: tuple[str, ...] = ()) -> Optimization:
    return Optimization(name=name, does=does, transformers=transformers, needs=needs)


def _extended(name: str, does: str, *transformers: str, needs: tuple[str, ...] = ()) -> Optimization:
    return Optimization(name=name, does=does, transformers=transformers, level=EXTENDED, needs=needs)


def _names(name: str, does: str, *needs: str) -> Optimization:
    return Optimization(name=name, does=does, backend="names", needs=needs)


_ROWS = (
    # Convolutions
    _basic("conv_bn_fusion", "Conv and the BatchNormalization after it become one Conv.", "ConvBNFusion"),
    _basic("conv_add_fusion", "A constant added to a Conv's result moves into its bias.", "ConvAddFusion"),
    _basic("conv_mul_fusion", "A constant factor of a Conv's result moves into its weights.", "ConvMulFusion"),
    _extended(
        "conv_activation_fusion",
        "Conv and the activation after it become com.microsoft.FusedConv, which QNN does not take.",
        "ConvActivationFusion",
    ),
    Optimization(
        name="conv_add_activation_fusion",
        does="Conv, the addition of another tensor and an activation become com.microsoft.FusedConv.",
        transformers=("ConvAddActivationFusion",),
        level=LAYOUT,
        needs=("conv_activation_fusion", "conv_add_fusion"),
    ),
    _names(
        "conv_channel_affine_folding",
        "Constant factors and addends per channel after a Conv move into it.",
        "conv_add_fusion",
        "conv_mul_fusion",
    ),
    _names(
        "conv_add_batch_normalization_folding",
        "Conv, a constant addend and BatchNormalization become one Conv.",
        "conv_add_fusion",
        "conv_bn_fusion",
    ),
    _basic("pad_fusion", "A Pad with zeros moves into the pads of the Conv or pooling after it.", "Pad_Fusion"),
    # GELU
    _extended(
        "gelu_fusion",
        "The Erf spelling of GELU becomes Gelu: the standard one from opset 20 on, com.microsoft's before.",
        "GeluFusionL1",
        "GeluFusionL2",
    ),
    _basic(
        "gelu_singlegelu", "The Erf spelling of GELU becomes the standard Gelu of opset 20 and later.", "GeluFusionL1"
    ),
    _extended("fast_gelu_fusion", "The Tanh spelling of GELU becomes com.microsoft.FastGelu.", "FastGeluFusion"),
    _extended("quick_gelu_fusion", "x * Sigmoid(a * x) becomes com.microsoft.QuickGelu.", "QuickGeluFusion"),
    _extended(
        "bias_gelu_fusion",
        "A bias and the Gelu after it become com.microsoft.BiasGelu.",
        "BiasGeluFusion",
        needs=("gelu_fusion",),
    ),
    Optimization(
        name="gelu_approximation",
        does="Gelu becomes com.microsoft.FastGelu, which is an approximation and changes results.",
        transformers=("GeluApproximation",),
        level=EXTENDED,
        config=(("optimization.enable_gelu_approximation", "1"),),
        needs=("gelu_fusion",),
    ),
    # Normalizations
    _extended(
        "layer_norm_fusion",
        "ReduceMean, Sub, Pow, Sqrt and Div become LayerNormalization.",
        "LayerNormFusionL1",
        "LayerNormFusionL2",
    ),
    _basic(
        "layernormalization_singlelayernorm",
        "ReduceMean, Sub, Pow, Sqrt and Div become the standard LayerNormalization of opset 17 and later.",
        "LayerNormFusionL1",
    ),
    _extended(
        "skip_layer_norm_fusion",
        "A residual Add and the LayerNormalization after it become com.microsoft.SkipLayerNormalization.",
        "SkipLayerNormFusion",
        needs=("layer_norm_fusion",),
    ),
    _extended(
        "bias_skip_layer_norm_fusion",
        "A bias before com.microsoft.SkipLayerNormalization moves into it.",
        "BiasSkipLayerNormFusion",
        needs=("skip_layer_norm_fusion",),
    ),
    _extended(
        "simplified_layer_norm_fusion",
        "Pow, ReduceMean, Sqrt, Div and Mul become SimplifiedLayerNormalization (RMSNorm).",
        "SimplifiedLayerNormFusion",
    ),
    Optimization(
        name="embed_layer_norm_fusion",
        does="The embeddings of BERT, their sum and LayerNormalization become com.microsoft.EmbedLayerNormalization.",
        backend="fusion",
        needs=("layer_norm_fusion",),
    ),
    # Attention
    Optimization(
        name="attention_fusion",
        does="The projections, scores and context of self-attention become com.microsoft.Attention.",
        backend="fusion",
        needs=("layer_norm_fusion",),
        before=("MatMulAddFusion",),
    ),
    Optimization(
        name="bias_softmax_fusion",
        does="An Add and the Softmax after it become com.microsoft.BiasSoftmax.",
        transformers=("BiasSoftmaxFusion",),
        level=EXTENDED,
        never="only CUDA and ROCm have the operator, and graphs are optimized on the CPU",
    ),
    # MatMul and Gemm
    _basic(
        "matmul_add_fusion", "MatMul and the bias after it become Gemm, between Reshapes if need be.", "MatMulAddFusion"
    ),
    _basic("matmuladd_reshapegemm", "The same as matmul_add_fusion.", "MatMulAddFusion"),
    _extended(
        "matmul_transpose_fusion",
        "Transposes around MatMul move into com.microsoft.FusedMatMul.",
        "MatmulTransposeFusion",
    ),
    _extended(
        "matmul_scale_fusion",
        "Constant factors around MatMul move into com.microsoft.FusedMatMul.",
        "MatMulScaleFusion",
    ),
    _basic(
        "matmul_bn_fusion",
        "MatMul and the BatchNormalization after it become Gemm.",
        "MatMul_BatchNormalization_Fusion",
    ),
    _extended(
        "dynamic_quantize_matmul_fusion",
        "DynamicQuantizeLinear, MatMulInteger and the scaling after it become com.microsoft.DynamicQuantizeMatMul.",
        "MatMulIntegerToFloatFusion",
        "DynamicQuantizeMatMulFusion",
    ),
    _extended(
        "gemm_activation_fusion",
        "Gemm and the activation after it become com.microsoft.FusedGemm.",
        "GemmActivationFusion",
    ),
    _basic("gemm_sum_fusion", "Gemm and the Sum after it become one Gemm.", "GemmSumFusion"),
    _basic("gemm_transpose_fusion", "Transposes around Gemm become its transA and transB.", "GemmTransposeFusion"),
    # Layout
    _basic(
        "transpose_optimizer", "Transposes are moved through the graph until they cancel out.", "TransposeOptimizer"
    ),
    Optimization(
        name="nhwc_transformer",
        does="Quantized (QLinear) convolutions of the CPU become channels-last.",
        transformers=("NhwcTransformer",),
        level=LAYOUT,
    ),
    Optimization(
        name="nchwc_transformer",
        does="Convolutions get the blocked layout of this machine's CPU; the file belongs to such CPUs alone.",
        transformers=("NchwcTransformer",),
        level=LAYOUT,
        by_cpu=True,
    ),
    Optimization(
        name="highdim_rtr_lowdim_rtr",
        does="Reshape, Transpose, Reshape through more than four dimensions goes through as few as it needs.",
        backend="rewrite",
    ),
    # Eliminations and small ones
    _basic("slice_elimination", "Slices that take everything are removed.", "EliminateSlice"),
    _basic("expand_elimination", "Expands that change no shape are removed.", "ExpandElimination"),
    _basic("unsqueeze_elimination", "Unsqueeze of a constant becomes a constant.", "UnsqueezeElimination"),
    _basic("constant_folding", "What depends on constants alone is computed now.", "ConstantFolding"),
    _basic("double_qdq_pairs_remover", "Of two pairs of Q and DQ in a row one remains.", "DoubleQDQPairsRemover"),
    _basic("not_where_fusion", "Where on a negated condition swaps its branches.", "NotWhereFusion"),
    _extended(
        "gather_slice_to_split_fusion",
        "Gathers or Slices that share out one axis of a tensor become a Split.",
        "GatherSliceToSplitFusion",
    ),
    _extended("gather_to_slice_fusion", "Gather by a Range becomes Slice.", "GatherToSliceFusion"),
)

OPTIMIZATIONS: Mapping[str, Optimization] = {row.name: row for row in _ROWS}

_OTHER_EP = "ONNX Runtime does it only for nodes of {}, and graphs are optimized on the CPU."
_OWN = "no transformer of ONNX Runtime and no rewrite of onnxscript does it."
_SOURCES = "ONNX Runtime recognises every spelling it knows at once: use {}."

NOT_OFFERED: Mapping[str, str] = {
    "bias_dropout_fusion": _OTHER_EP.format("CUDA and ROCm"),
    "matmul_activation_fusion": _OTHER_EP.format("DirectML"),
    "concat_slice_elimination": "it is only in training builds of ONNX Runtime.",
    "fuse_rmsnorm": "simplified_layer_norm_fusion knows the pattern, but no library writes it as LpNormalization.",
    "static_split_to_slice": _OWN,
    "exp_positive_scale_folding": _OWN,
    **{f"gelu{number}_singlegelu": _SOURCES.format("gelu_singlegelu") for number in (1, 2, 3, 4)},
    "layernormpow_singlelayernorm": _SOURCES.format("layernormalization_singlelayernorm"),
    "layernormmul_singlelayernorm": _SOURCES.format("layernormalization_singlelayernorm"),
    "matmuladd_conv2d4d": _OWN,
    "matmuladd_conv2d3d": _OWN,
    "matmuladd_conv2d2d": _OWN,
    "attention_expandedattention": _OWN,
    "clamp_constant_values": "it changes weights, which is quantization's business: use Recipe overrides.",
    "remove_isnan_in_attention_mask": _OWN,
    "untie_constant_batched_matmul": "it works around one driver and adds work for everyone else.",
}


def resolve_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names as the table spells them, with what they need, sorted. Unknown ones are a `UsageProblem`."""
    resolved: set[str] = set()
    waiting = [_spelled(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name not in resolved:
            resolved.add(name)
            waiting += OPTIMIZATIONS[name].needs
    return tuple(sorted(resolved))


def _spelled(given: str) -> str:
    """`-` and `_` are the same, so are capitals, and words may be run together as in `highdimRTR_lowdimRTR`."""
    key = _key(given)
    for name in OPTIMIZATIONS:
        if _key(name) == key:
            return name
    for name, reason in NOT_OFFERED.items():
        if _key(name) == key:
            raise UsageProblem(f"optimization {name!r} is not offered: {reason}", remedy="leave it out.")
    raise unknown_name("optimization", given.lower().replace("-", "_"), OPTIMIZATIONS)


def _key(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
