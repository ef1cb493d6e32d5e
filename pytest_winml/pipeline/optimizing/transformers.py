"""Every graph transformer and rule of ONNX Runtime that this package knows, by the level it belongs to.

ONNX Runtime says in its verbose log which transformers it ran. Rules stand together in `Level1_RuleBasedTransformer`
and `Level2_RuleBasedTransformer`, which are only there if a rule of theirs is switched on: with every rule of this list
off, one that shows up holds a rule that is not in the list. The list is that of versions 1.24 to 1.31, all platforms.
"""

from __future__ import annotations

from typing import Final

RULES: Final[dict[int, tuple[str, ...]]] = {
    1: (
        "CastChainElimination", "CastElimination", "ConvAddFusion", "ConvBNFusion", "ConvMulFusion", "DivMulFusion",
        "EliminateDropout", "EliminateIdentity", "EliminateSlice", "ExpandElimination", "FuseReluClip",
        "GemmSumFusion", "GemmTransposeFusion", "LabelEncoderFusion", "MatMul_BatchNormalization_Fusion",
        "NoopElimination", "NotWhereFusion", "Pad_Fusion", "PreShapeNodeElimination", "UnsqueezeElimination",
    ),
    2: ("ClipQuantRewrite", "GemmTransposeFusion", "ReluQuantRewrite"),
}  # fmt: skip

TRANSFORMERS: Final[dict[int, tuple[str, ...]]] = {
    1: (
        "CommonSubexpressionElimination", "ConstantFolding", "ConstantSharing", "DQMatMulNBitsFusion",
        "DoubleQDQPairsRemover", "EnsureUniqueDQForNodeUnit", "FreeDimensionOverrideTransformer", "GeluFusionL1",
        "LayerNormFusionL1", "MatMulAddFusion", "QDQPropagationTransformer", "ReshapeFusion", "RocmBlasAltImpl",
        "SliceConcatToSpaceToDepthFusion", "TransposeOptimizer", "WeightBiasQuantization", "WhereDummyDq",
    ),
    2: (
        "AttentionFusion", "Avx2WeightS8ToU8Transformer", "BiasDropoutFusion", "BiasGeluFusion",
        "BiasSkipLayerNormFusion", "BiasSoftmaxFusion", "ConstantFoldingDQ", "ConvActivationFusion",
        "DynamicQuantizeMatMulFusion", "EmbedLayerNormFusion", "FastGeluFusion", "GatherSliceToSplitFusion",
        "GatherToSliceFusion", "GeluApproximation", "GeluFusionL2", "GemmActivationFusion",
        "GqaValueLayoutTransformer", "GroupQueryAttentionFusion", "GroupQueryAttentionPreNormFusion",
        "LayerNormFusionL2", "MatMulActivationFusion", "MatMulAddFusion", "MatMulIntegerToFloatFusion",
        "MatMulNBitsFusion", "MatMulNBitsMlpFusion", "MatMulNBitsQkvFusion", "MatMulScaleFusion",
        "MatmulTransposeFusion", "QDQFinalCleanupTransformer", "QDQS8ToU8Transformer",
        "QDQSelectorActionTransformer", "QuickGeluFusion", "SimplifiedLayerNormFusion", "SkipLayerNormFusion",
        "TransposeOptimizer_CPUExecutionProvider",
    ),
    3: ("ConvAddActivationFusion", "NchwcTransformer", "NhwcTransformer"),
    4: ("FuseFp16InitializerToFp32NodeTransformer",),
}  # fmt: skip

# They run at every level, whatever is switched off: duplicate DQ nodes so that every operator has its own, remove casts
# that cancel out, add casts where the CPU has no kernel for a type, copy between devices.
ALWAYS_ON: Final = frozenset(
    {
        "EnsureUniqueDQForNodeUnit",
        "RemoveDuplicateCastTransformer",
        "CastFloat16Transformer",
        "MemcpyTransformer",
    }
)

# Those of the basic level that add, move, join or remove Q and DQ, or make DQ nodes share their constants.
ON_QUANTIZED_GRAPHS: Final = frozenset(
    {
        "CommonSubexpressionElimination",
        "ConstantSharing",
        "DQMatMulNBitsFusion",
        "DoubleQDQPairsRemover",
        "QDQPropagationTransformer",
        "TransposeOptimizer",
        "WeightBiasQuantization",
        "WhereDummyDq",
    }
)

# They read Sub, Pow, ReduceMean as a variance, whatever the exponent is.
TAKING_EVERY_POWER_FOR_A_SQUARE: Final = frozenset({"LayerNormFusionL1", "LayerNormFusionL2"})

ALL_RULES: Final = frozenset(name for names in RULES.values() for name in names)
KNOWN: Final = ALL_RULES | {name for names in TRANSFORMERS.values() for name in names}
BASIC_SET: Final = frozenset(RULES[1]) | frozenset(TRANSFORMERS[1])


def rule_based(level: int) -> str:
    return f"Level{level}_RuleBasedTransformer"
