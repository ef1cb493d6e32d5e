"""The architectures that exports are tested with: as people use them, and small enough for a test.

The small ones keep what makes an architecture peculiar to an exporter (window shifts, batch norms, two towers, position
offsets) and lose depth and width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Architecture:
    """`inputs` and `outputs` are the names the graph must have, in its order."""

    name: str
    task: str
    config: dict[str, Any]
    small: dict[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    component: str | None = None

    @property
    def small_config(self) -> dict[str, Any]:
        return self.config | self.small


_IMAGE = ("pixel_values",)
_TEXT = ("input_ids", "attention_mask")
_TRANSFORMER = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
_SMALL_IMAGE = {"image_size": 64, "num_labels": 10}

RESNET = Architecture(
    "resnet-18",
    "image-classification",
    {
        "model_type": "resnet",
        "depths": [2, 2, 2, 2],
        "hidden_sizes": [64, 128, 256, 512],
        "layer_type": "basic",
        "num_labels": 1000,
    },
    {"depths": [1, 1, 1, 1], "embedding_size": 16, "hidden_sizes": [16, 24, 32, 48], "num_labels": 10},
    _IMAGE,
    ("logits",),
)
MOBILEVIT = Architecture(
    "mobilevit-small",
    "image-classification",
    {"model_type": "mobilevit", "image_size": 256, "num_labels": 1000},
    _SMALL_IMAGE
    | {
        "hidden_sizes": [32, 40, 48],
        "neck_hidden_sizes": [8, 16, 24, 32, 40, 48, 96],
        "num_attention_heads": 2,
    },
    _IMAGE,
    ("logits",),
)
DINOV2 = Architecture(
    "dinov2-small",
    "feature-extraction",
    {
        "model_type": "dinov2",
        "hidden_size": 384,
        "num_hidden_layers": 12,
        "num_attention_heads": 6,
        "patch_size": 14,
        "image_size": 224,
    },
    {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "image_size": 70},
    _IMAGE,
    ("last_hidden_state",),
)
VIT = Architecture(
    "vit-small",
    "image-classification",
    {
        "model_type": "vit",
        "hidden_size": 384,
        "num_attention_heads": 6,
        "intermediate_size": 1536,
        "num_labels": 1000,
    },
    _TRANSFORMER | _SMALL_IMAGE,
    _IMAGE,
    ("logits",),
)
CONVNEXT = Architecture(
    "convnext-tiny",
    "image-classification",
    {"model_type": "convnext", "num_labels": 1000},
    _SMALL_IMAGE | {"depths": [1, 1, 2, 1], "hidden_sizes": [16, 24, 32, 48]},
    _IMAGE,
    ("logits",),
)
SWIN = Architecture(
    "swin-tiny",
    "image-classification",
    {"model_type": "swin", "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24], "embed_dim": 96, "num_labels": 1000},
    _SMALL_IMAGE | {"image_size": 32, "depths": [2, 2], "num_heads": [2, 4], "embed_dim": 16, "window_size": 4},
    _IMAGE,
    ("logits",),
)
MINILM = Architecture(
    "minilm-l6",
    "feature-extraction",
    {
        "model_type": "bert",
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
    _TRANSFORMER | {"vocab_size": 500, "max_position_embeddings": 64},
    (*_TEXT, "token_type_ids"),
    ("last_hidden_state",),
)
ROBERTA = Architecture(
    "roberta-6",
    "text-classification",
    {
        "model_type": "roberta",
        "num_hidden_layers": 6,
        "vocab_size": 50265,
        "max_position_embeddings": 514,
        "type_vocab_size": 1,
        "num_labels": 3,
    },
    _TRANSFORMER | {"vocab_size": 500, "max_position_embeddings": 66},
    _TEXT,
    ("logits",),
)
CLIP = Architecture(
    "clip-4",
    "zero-shot-image-classification",
    {
        "model_type": "clip",
        "text_config": {"num_hidden_layers": 4},
        "vision_config": {"num_hidden_layers": 4, "hidden_size": 384, "intermediate_size": 1536}
        | {"num_attention_heads": 6},
    },
    {
        "projection_dim": 32,
        "text_config": _TRANSFORMER | {"vocab_size": 500, "max_position_embeddings": 24},
        "vision_config": _TRANSFORMER | {"image_size": 64, "patch_size": 16},
    },
    ("input_ids", "pixel_values", "attention_mask"),
    ("logits_per_image", "logits_per_text", "text_embeds", "image_embeds"),
)
WHISPER = Architecture(
    "whisper-tiny-encoder",
    "automatic-speech-recognition",
    {"model_type": "whisper", "d_model": 384, "encoder_layers": 4, "decoder_layers": 4, "encoder_attention_heads": 6}
    | {"decoder_attention_heads": 6, "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536, "vocab_size": 51865},
    {"d_model": 64, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2}
    | {"decoder_attention_heads": 2, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 500}
    | {"max_source_positions": 100, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    | {"decoder_start_token_id": 1, "max_target_positions": 32},
    ("input_features",),
    ("last_hidden_state",),
    component="encoder",
)

ALL = (RESNET, MOBILEVIT, DINOV2, VIT, CONVNEXT, SWIN, MINILM, ROBERTA, CLIP, WHISPER)
