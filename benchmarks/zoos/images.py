"""Image models of timm, at the size that they are made for or at 96 pixels where they take any."""
from __future__ import annotations

from . import Made, numbers

NAMES = """beit_base_patch16_224 botnet26t_256 cait_xxs24_224 coat_lite_tiny coatnet_nano_rw_224 coatnet_pico_rw_224 convit_tiny convmixer_768_32 convnext_atto
 convnextv2_atto cpubone_nano crossvit_tiny_240 csatv2 cspdarknet53 cspnext_tiny davit_tiny deepseek_vit_412m deit_tiny_distilled_patch16_224 densenet121 dla34
 dla46_c dla60_res2net dm_nfnet_f0 dpn48b eca_botnext26ts_256 eca_halonext26ts ecaresnet26t edgenext_xx_small efficientformer_l1 efficientformerv2_s0
 efficientnetv2_rw_t efficientvim_m1 efficientvit_b0 efficientvit_m0 ese_vovnet19b_dw eva02_tiny_patch14_224 fasternet_t0 fastvit_t8 fbnetc_100 fbnetv3_b
 focalnet_tiny_srf gcvit_xxtiny gemma4_vit_167m gernet_s ghostnet_050 ghostnetv2_100 gmixer_12_224 gmlp_ti16_224 halonet26t hardcorenas_a hgnet_tiny
 hiera_tiny_224 hrnet_w18_small iformer_t inception_next_atto inception_resnet_v2 inception_v3 inception_v4 lambda_resnet26t lamhalobotnet50ts_256 lcnet_035
 lcnetv2_small legacy_seresnet18 legacy_xception levit_128s lowformer_b0 mambaout_femto maxvit_rmlp_pico_rw_256 mixer_s32_224 mixnet_s mnasnet_small
 mobilenetv2_035 mobilenetv3_small_050 mobilenetv5_base mobilevit_xxs mobilevitv2_050 mvitv2_tiny naflexvit_base_patch16_gap nasnetalarge nest_tiny
 nextvit_small nfnet_l0 pit_ti_224 pnasnet5large poolformer_s12 poolformerv2_s12 pvt_v2_b0 qwen3_vit_88m rdnet_tiny regnetx_002 regnety_002 repghostnet_050
 repvgg_a0 repvit_m0_9 res2net50_26w_4s res2next50 resmlp_12_224 resnest14d resnet10t resnet18 resnet50 resnetv2_18 resnext101_32x4d resnext50_32x4d rexnet_100
 sam2_hiera_tiny samvit_base_patch16_224 sebotnet33ts_256 selecsls42b sequencer2d_s seresnet18 shvit_s1 skresnet18 spnasnet_100 starnet_s050 swiftformer_xs
 swin_tiny_patch4_window7_224 swinv2_cr_tiny_ns_224 swinv2_tiny_window8_256 tf_efficientnet_b0 tf_mixnet_s tiny_vit_5m_224 tinynet_e tnt_s_legacy_patch16_224
 tnt_s_patch16_224 tresnet_m twins_pcpvt_small twins_svt_small vgg11 visformer_tiny vit_relpos_small_patch16_224 vit_small_r26_s32_224 vit_tiny_patch16_224
 vitamin_small_224 volo_d1_224 xception41 xcit_nano_12_p16_224""".split()
NORMALISED = ("levit", "efficientvit_m", "efficientformer")  # over examples at their end
# pixels that valid convolutions need
LEAST = {"inception": 160, "nasnet": 160, "pnasnet": 160, "xception": 160, "legacy_xception": 160}
SHALLOW = {"deepseek_vit_412m": {"depth": 2}, "gemma4_vit_167m": {"depth": 2}, "beit_base_patch16_224": {"depth": 4},
           # layers like the first ones add only time
           "samvit_base_patch16_224": {"depth": 4, "global_attn_indexes": (1, 3)},
           "naflexvit_base_patch16_gap": {"depth": 4}}


def pixels(cfg, name):
    """Height and width of the images."""
    height, width = cfg["input_size"][1:]
    if cfg.get("fixed_input_size"):
        return height, width
    least = max([size for start, size in LEAST.items() if name.startswith(start)]
                + [cfg["min_input_size"][1] if cfg.get("min_input_size") else 96])
    return min(height, least), min(width, least)


def build(torch, name):
    import timm

    model = timm.create_model(name, num_classes=10, pretrained=False, **SHALLOW.get(name, {}))
    # most of these normalise over tokens
    images = 1 if model.default_cfg.get("fixed_input_size") and not name.startswith(NORMALISED) else 2
    return Made(model, {"x": numbers(images, 3, *pixels(model.default_cfg, name))}, lambda model, x: model(x))
