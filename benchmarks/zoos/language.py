"""Models of transformers with configurations of two narrow layers."""
from __future__ import annotations

import numpy as np

from . import Made, numbers, whole

WORDS, LENGTH = 64, 12
SMALL = {**dict.fromkeys(
    "hidden_size d_model n_embd embed_dim dim embedding_size word_embed_proj_dim moe_intermediate_size".split(), 32),
         **dict.fromkeys(
             "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_decoder_layers".split(),
             2),
         **dict.fromkeys(
             "num_attention_heads num_heads n_head n_heads encoder_attention_heads decoder_attention_heads".split(), 4),
         **dict.fromkeys(
             "intermediate_size d_ff encoder_ffn_dim decoder_ffn_dim hidden_dim ffn_dim vocab_size "
             "max_position_embeddings n_positions".split(), 64),
         **dict.fromkeys("num_experts num_local_experts".split(), 4),
         **dict.fromkeys("d_kv head_dim state_size patch_size".split(), 8),
         "num_key_value_heads": 2, "image_size": 32, "type_vocab_size": 2, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": 2, "decoder_start_token_id": 1}
TEXT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 64,
        "max_position_embeddings": 64,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
VISION = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
          "image_size": 32, "patch_size": 8}
CLASSES = {"GoogleFnet": "FNetForMaskedLM", "DistillGPT2": "GPT2LMHeadModel", "YituTechConvBert": "ConvBertForMaskedLM",
           "AllenaiLongformerBase": "LongformerForMaskedLM",
           # other layers of Reformer hash by random rotations, which libraries draw differently
       "BigBird": "BigBirdForMaskedLM", "CLIP": "CLIPModel", "CamemBert": "CamembertForMaskedLM",
           "ConvNext": "ConvNextForImageClassification",
           "DETR-like YOLOS": "YolosForObjectDetection", "T5Small": "T5ForConditionalGeneration",
           "DeiT": "DeiTForImageClassification", "Dinov2": "Dinov2ForImageClassification",
           "Reformer": "ReformerModelWithLMHead", "ResNet": "ResNetForImageClassification", "SAM": "SamModel",
           "Segformer": "SegformerForImageClassification",
           "SigLIP": "SiglipModel", "Swin": "SwinForImageClassification", "ViT": "ViTForImageClassification",
           "VisionEncoderDecoder-LLaVA": "VisionEncoderDecoderModel",
           "Wav2Vec2": "Wav2Vec2ForCTC", "Whisper": "WhisperForConditionalGeneration",
           **{name: f"{name}ForCausalLM"
              for name in "Bloom DeepseekV3 Falcon GPTJ GPTNeoX Gemma Gemma2 Llama Mamba Mistral Mixtral Phi Phi3 "
                          "Qwen2 Qwen3 Qwen3Moe".split()}}
WITH_CLASS = """AlbertForMaskedLM AlbertForQuestionAnswering BartForCausalLM BartForConditionalGeneration BertForMaskedLM BertForQuestionAnswering BlenderbotForCausalLM
 BlenderbotSmallForCausalLM BlenderbotSmallForConditionalGeneration DebertaV2ForMaskedLM DebertaV2ForQuestionAnswering DistilBertForMaskedLM DistilBertForQuestionAnswering
 ElectraForCausalLM ElectraForQuestionAnswering GPT2ForSequenceClassification GPTNeoForCausalLM GPTNeoForSequenceClassification LayoutLMForMaskedLM
 LayoutLMForSequenceClassification M2M100ForConditionalGeneration MBartForCausalLM MBartForConditionalGeneration MT5ForConditionalGeneration MegatronBertForCausalLM
 MegatronBertForQuestionAnswering MobileBertForMaskedLM MobileBertForQuestionAnswering OPTForCausalLM PLBartForCausalLM PLBartForConditionalGeneration PegasusForCausalLM
 PegasusForConditionalGeneration RobertaForCausalLM RobertaForQuestionAnswering T5ForConditionalGeneration TrOCRForCausalLM XGLMForCausalLM XLNetLMHeadModel""".split()
NAMES = sorted([*CLASSES, *WITH_CLASS])
OWN = {"Phi3": {"rope_scaling": None, "original_max_position_embeddings": 64},
       "MobileBert": {"true_hidden_size": 32, "intra_bottleneck_size": 32}, "XLNet": {"d_inner": 64},
       "GPTNeo": {"attention_types": [[["global", "local"], 1]], "window_size": 4}, "GPTJ": {"rotary_dim": 4},
       "LayoutLM": {"max_2d_position_embeddings": 128},
       "BigBird": {"block_size": 4, "num_random_blocks": 1}, "AllenaiLongformer": {"attention_window": 8},
       "DeepseekV3": {
           "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "kv_lora_rank": 16,
           "q_lora_rank": 16, "qk_rope_head_dim": 8, "v_head_dim": 8,
           "qk_nope_head_dim": 8, "first_k_dense_replace": 1, "num_key_value_heads": 4, "head_dim": 8}, "Reformer": {
           "attention_head_size": 8, "attn_layers": ["local", "local"], "axial_pos_shape": (4, 4),
           "axial_pos_embds_dim": (16, 16), "feed_forward_size": 64, "local_attn_chunk_length": 4,
           "lsh_attn_chunk_length": 4, "num_buckets": 4, "is_decoder": True, "hash_seed": 0},
       "ResNet": {"hidden_sizes": [16, 32], "depths": [1, 1], "embedding_size": 16},
       "ConvNext": {"num_stages": 2, "hidden_sizes": [16, 32], "depths": [1, 1]},
       "Segformer": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_encoder_blocks": 2, "sr_ratios": [2, 1],
                     "patch_sizes": [7, 3], "strides": [4, 2],
                     "num_attention_heads": [1, 2], "mlp_ratios": [2, 2]},
       "Swin": {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "patch_size": 2},
       "DETR": {"image_size": [32, 32], "num_detection_tokens": 5},
       "Wav2Vec2": {"conv_dim": [16] * 3, "conv_stride": [5, 2, 2], "conv_kernel": [10, 3, 2],
                    "num_feat_extract_layers": 3, "num_conv_pos_embeddings": 8,
                    "num_conv_pos_embedding_groups": 2, "apply_spec_augment": False},
       "Whisper": {"num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 32,
                   "begin_suppress_tokens": None},
       "Qwen3Moe": {"num_experts_per_tok": 2}, "Llama": {}, "CLIP": {"text_config": TEXT, "vision_config": VISION},
       "SigLIP": {"text_config": TEXT, "vision_config": VISION},
       "SAM": {"vision_config": {"hidden_size": 32, "output_channels": 16, "num_hidden_layers": 2,
                                 "num_attention_heads": 4, "image_size": 64, "patch_size": 8, "window_size": 4,
                                 "global_attn_indexes": [1], "num_pos_feats": 8, "mlp_dim": 64,
                                 "initializer_range": 0.02},
               "prompt_encoder_config": {"hidden_size": 16, "image_size": 64, "patch_size": 8,
                                         "mask_input_channels": 8},
               "mask_decoder_config": {"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2,
                                       "iou_head_hidden_dim": 16}}}
GENERATE = ("Causal", "LMHead", "ConditionalGeneration")
STARTS = {"decoder_start_token_id": 1, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def own(name):
    """What a model's configuration says besides ``SMALL``."""
    return next((values for start, values in OWN.items() if name == start),
                None) or next((values for start, values in OWN.items() if name.startswith(start)), {})


def configure(kind, name):
    """A small configuration of a class."""
    given = own(name)
    config = kind() if not given.get("vision_config") else kind(**given)
    small = {}
    for key, value in SMALL.items():
        derived = getattr(getattr(kind, key, None), "fset", key) is None
        if not derived and isinstance(getattr(config, key, None), int) or key in ("pad_token_id", "bos_token_id",
                                                                                  "eos_token_id"):
            small[key] = value
    if "Causal" in name or name in ("BigBird",):
        small["is_decoder"] = "Causal" in name
    return kind(**{**small, **given})


def encoder_decoder(transformers):
    """A vision transformer that a text decoder looks at."""
    encoder = transformers.ViTConfig(**VISION)
    decoder = transformers.GPT2Config(vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1,
                                      eos_token_id=2, add_cross_attention=True, is_decoder=True)
    return transformers.VisionEncoderDecoderModel(transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        encoder, decoder))


def build(torch, name):
    import transformers

    if name == "VisionEncoderDecoder-LLaVA":
        return Made(encoder_decoder(transformers),
                    {"pixel_values": numbers(2, 3, 32, 32), "decoder_input_ids": whole(3, WORDS, 2, LENGTH)})
    kind = getattr(transformers, CLASSES.get(name, name))
    config = configure(kind.config_class, name)
    model = kind(config)
    ids = whole(3, WORDS, 2, 16 if name == "Reformer" else 64 if name == "BigBird" else LENGTH)
    given = {"input_ids": ids}
    if name in ("CLIP", "SigLIP"):
        given["pixel_values"] = numbers(2, 3, 32, 32)
    elif name == "SAM":
        given = {"pixel_values": numbers(1, 3, 64, 64), "input_points": numbers(1, 1, 2, 2) * 16 + 32}
    elif name == "Wav2Vec2":
        given = {"input_values": numbers(2, 400)}
    elif name == "Whisper":
        given = {"input_features": numbers(2, 8, 32), "decoder_input_ids": ids}
    elif name.startswith("LayoutLM"):
        corner = whole(0, 60, 2, LENGTH, 2)
        given["bbox"] = np.concatenate([corner, corner + 20], -1)
    elif hasattr(config, "num_channels") and "vocab_size" not in config.to_dict():
        side = config.image_size if isinstance(getattr(config, "image_size", None), int) else 32
        given = {"pixel_values": numbers(2, 3, side, side)}
    elif config.is_encoder_decoder and "Causal" not in name:
        given["decoder_input_ids"] = whole(3, WORDS, 2, 8, seed=2)
    prompt = {"input_ids": whole(3, WORDS, 2, 6, seed=3)} if any(part in CLASSES.get(name, name)
                                                                 for part in GENERATE) and name not in (
                                                                         "Whisper", "Reformer",
                                                                         "XLNetLMHeadModel") else None
    more = {"use_cache": False} if "use_cache" in config.to_dict() else {}
    return Made(model, given, lambda model, **given: model(**given, **more), prompt)
