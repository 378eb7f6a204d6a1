"""Models of timm, transformers and torch-geometric, unmodified: outputs, gradients and one optimizer step beside PyTorch's.

    python benchmarks/zoo.py --judge PYTHON --ours PYTHON [--models resnet18,Llama] [--suite timm] [--generate]

Each model is built with small random weights in a process under PyTorch, which saves weights, inputs and results; a second process under
Rushlight (``python -m rushlight``) loads the weights, computes the same and compares.  ``--judge`` and ``--ours`` name the interpreters (the
first has torch; both need the libraries).  Prints a line a model, then the failures by cause.
"""
import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

if sys.path and os.path.abspath(sys.path[0]) == os.path.dirname(os.path.abspath(__file__)):
    del sys.path[0]  # other benchmarks beside this one have names that libraries import
TIMM = """beit_base_patch16_224 botnet26t_256 coat_lite_tiny coatnet_nano_rw_224 convit_tiny convnext_atto convnextv2_atto crossvit_tiny_240 cspdarknet53 davit_tiny
 deit_tiny_distilled_patch16_224 densenet121 dla34 edgenext_xx_small efficientformer_l1 efficientnetv2_rw_t efficientvit_b0 ese_vovnet19b_dw fasternet_t0 fastvit_t8 fbnetc_100
 focalnet_tiny_srf gernet_s ghostnet_050 gmixer_12_224 gmlp_ti16_224 hardcorenas_a hiera_tiny_224 hrnet_w18_small inception_v3 lcnet_035 levit_128s mambaout_femto
 maxvit_rmlp_pico_rw_256 mixer_s32_224 mixnet_s mnasnet_small mobilenetv2_035 mobilenetv3_small_050 mobilevit_xxs mobilevitv2_050 mvitv2_tiny nfnet_l0 pit_ti_224
 poolformer_s12 pvt_v2_b0 regnetx_002 regnety_002 repvgg_a0 repvit_m0_9 res2net50_26w_4s resmlp_12_224 resnest14d resnet10t resnet18 resnetv2_18 rexnet_100 selecsls42b
 seresnet18 skresnet18 spnasnet_100 starnet_s050 swiftformer_xs swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 tf_efficientnet_b0 tinynet_e tnt_s_patch16_224
 tresnet_m twins_pcpvt_small twins_svt_small vgg11 visformer_tiny vit_tiny_patch16_224 volo_d1_224 xception41 xcit_nano_12_p16_224""".split()
SMALL = {"hidden_size": 32, "d_model": 32, "n_embd": 32, "embed_dim": 32, "dim": 32, "num_hidden_layers": 2, "num_layers": 2, "n_layer": 2, "n_layers": 2, "encoder_layers": 2,
         "decoder_layers": 2, "num_attention_heads": 4, "num_heads": 4, "n_head": 4, "n_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 64, "d_ff": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "hidden_dim": 64, "d_kv": 8, "head_dim": 8,
         "vocab_size": 64, "max_position_embeddings": 64, "n_positions": 64, "image_size": 32, "patch_size": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
         "decoder_start_token_id": 1, "embedding_size": 32, "num_decoder_layers": 2, "num_experts": 4, "num_local_experts": 4, "moe_intermediate_size": 32, "state_size": 8,
         "type_vocab_size": 2, "word_embed_proj_dim": 32, "ffn_dim": 64}
HF = {"GPT2": "GPT2LMHeadModel", "BertMLM": "BertForMaskedLM", "BertQA": "BertForQuestionAnswering", "Albert": "AlbertForMaskedLM", "Roberta": "RobertaForCausalLM",
      "CamemBert": "CamembertForMaskedLM", "DistilBert": "DistilBertForMaskedLM", "Electra": "ElectraForCausalLM", "GPTNeoX": "GPTNeoXForCausalLM", "GPTJ": "GPTJForCausalLM",
      "GPTNeo": "GPTNeoForCausalLM", "OPT": "OPTForCausalLM", "Llama": "LlamaForCausalLM", "Mistral": "MistralForCausalLM", "Mixtral": "MixtralForCausalLM",
      "Qwen2": "Qwen2ForCausalLM", "Qwen3": "Qwen3ForCausalLM", "Gemma": "GemmaForCausalLM", "Gemma2": "Gemma2ForCausalLM", "Phi": "PhiForCausalLM", "Phi3": "Phi3ForCausalLM",
      "Falcon": "FalconForCausalLM", "Bloom": "BloomForCausalLM", "T5": "T5ForConditionalGeneration", "MT5": "MT5ForConditionalGeneration", "Bart": "BartForConditionalGeneration",
      "BartCausal": "BartForCausalLM", "MBart": "MBartForConditionalGeneration", "Pegasus": "PegasusForConditionalGeneration", "XGLM": "XGLMForCausalLM",
      "Mamba": "MambaForCausalLM", "FNet": "FNetForMaskedLM", "MegatronBert": "MegatronBertForCausalLM", "DebertaV2": "DebertaV2ForMaskedLM", "XLNet": "XLNetLMHeadModel",
      "ConvBert": "ConvBertForMaskedLM", "M2M100": "M2M100ForConditionalGeneration", "Blenderbot": "BlenderbotForConditionalGeneration", "ViT": "ViTForImageClassification",
      "DeiT": "DeiTForImageClassification", "Dinov2": "Dinov2ForImageClassification", "Qwen3Moe": "Qwen3MoeForCausalLM", "MobileBert": "MobileBertForMaskedLM"}
OWN = {"Phi3": {"rope_scaling": None}, "MobileBert": {"true_hidden_size": 32, "intra_bottleneck_size": 32}, "XLNet": {"d_inner": 64}, "Falcon": {"alibi": False}}
STARTS = {"decoder_start_token_id": 1, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GRAPHS = {"pyg_GCN": "GCN", "pyg_GraphSAGE": "GraphSAGE", "pyg_GAT": "GAT", "pyg_GIN": "GIN", "pyg_PNA": "PNA", "pyg_EdgeCNN": "EdgeCNN"}


def build_timm(torch, name):
    import timm
    model = timm.create_model(name, num_classes=10, pretrained=False)
    size = model.default_cfg.get("input_size", (3, 224, 224))
    return model, lambda: {"x": torch.randn(2, *size)}, lambda model, given: model(given["x"])


def build_hf(torch, name):
    import transformers
    kind = getattr(transformers, HF[name])
    config = kind.config_class()
    for key, value in {**SMALL, **OWN.get(name, {})}.items():
        if hasattr(config, key) and getattr(config, key) is not None or key in OWN.get(name, {}) or key == "pad_token_id":
            try:
                setattr(config, key, value)
            except (AttributeError, NotImplementedError):  # derived from others
                continue
    config = type(config)(**{k: v for k, v in config.to_dict().items() if k not in ("transformers_version", "layer_types", "model_type")})
    if hasattr(config, "is_decoder") and "Causal" in HF[name]:
        config.is_decoder = True
    config.use_cache = False
    model = kind(config)
    if hasattr(config, "image_size"):
        return model, lambda: {"pixel_values": torch.randn(2, 3, 32, 32)}, lambda model, given: model(**given).logits
    return model, lambda: {"input_ids": torch.randint(3, 64, (2, 12))}, lambda model, given: last(model(**given))


def last(output):
    return output.logits if "logits" in output else output.start_logits


def build_graphs(torch, name):
    import torch_geometric.nn as layers
    edges = torch.randint(0, 20, (2, 60))
    more = {"aggregators": ["mean", "max"], "scalers": ["identity"], "deg": torch.ones(4, dtype=torch.int64)} if name == "pyg_PNA" else {}
    model = getattr(layers, GRAPHS[name])(8, 16, 2, 4, **more)
    return model, lambda: {"x": torch.randn(20, 8), "edges": edges}, lambda model, given: model(given["x"], given["edges"])


def build(torch, name):
    """The model, a function that makes inputs, and one that computes its output."""
    return (build_hf if name in HF else build_graphs if name in GRAPHS else build_timm)(torch, name)


def still(model):
    """Switches off what draws random numbers."""
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, float) and ("drop" in name or name == "p" and "Drop" in type(module).__name__):
                setattr(module, name, 0.0)


def results(torch, model, given, compute):
    """Outputs, gradients of a weighted sum, and the parameters after a step of AdamW."""
    model.train()
    still(model)
    output = compute(model, given)
    output = output[0] if isinstance(output, (tuple, list)) else output
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).reshape(output.shape)
    (output * weights).sum().backward()
    named = dict(model.named_parameters())
    gradients = {n: p.grad.detach().clone() for n, p in named.items() if p.grad is not None}
    optimizer = torch.optim.SGD(named.values(), lr=0.1, momentum=0.9)
    optimizer.step()
    return {"output": output.detach(), "gradients": gradients, "after": {n: p.detach().clone() for n, p in named.items()},
            "buffers": {n: b.detach().clone() for n, b in model.named_buffers() if b is not None}}


def judge(name, path, generate):
    import torch
    torch.manual_seed(0)
    model, inputs, compute = build(torch, name)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    given = inputs()
    tokens = None
    if generate:
        torch.manual_seed(7)
        prompt = torch.randint(3, 64, (2, 6))
        can = name in HF and any(part in HF[name] for part in ("Causal", "LMHead", "Generation"))
        tokens = model.eval().generate(prompt, max_new_tokens=8, min_new_tokens=8, do_sample=False, use_cache=True, **STARTS) if can else None
        tokens = None if tokens is None else (prompt, tokens)
    torch.save({"state": state, "given": given, "tokens": tokens, **results(torch, model, given, compute)}, path)


def ours(name, path, generate):
    import torch
    saved = torch.load(path)
    model, _, compute = build(torch, name)
    model.load_state_dict(saved["state"])
    if generate and saved["tokens"] is not None:
        prompt, tokens = saved["tokens"]
        found = model.eval().generate(prompt, max_new_tokens=8, min_new_tokens=8, do_sample=False, use_cache=True, **STARTS)
        assert found.tolist() == tokens.tolist(), f"generated tokens differ: {found.tolist()} {tokens.tolist()}"
    started = time.perf_counter()
    found = results(torch, model, saved["given"], compute)
    seconds = time.perf_counter() - started
    compare("output", found["output"], saved["output"])
    for part in ("gradients", "after", "buffers"):
        missing = set(saved[part]) ^ set(found[part])
        assert not missing, f"{part} of only one: {sorted(missing)[:4]}"
        scale = max((float(v.abs().max()) for v in saved[part].values() if v.numel() and v.is_floating_point()), default=1.0)
        for key, value in saved[part].items():
            compare(f"{part} of {key}", found[part][key], value, scale if part == "gradients" else 0.0)
    print(f"OK {seconds:.1f}")


def compare(what, a, b, scale=0.0):
    assert tuple(a.shape) == tuple(b.shape), f"{what}: shape {tuple(a.shape)} instead of {tuple(b.shape)}"
    if b.numel():
        a, b = a.double(), b.double()
        error, size = float((a - b).abs().max()), max(float(b.abs().max()), 1e-2 * scale)
        assert error <= 2e-3 * size + 1e-5, f"{what}: differs by {error:.3g} of {size:.3g}"


def cause(text):
    """The last line of an error, shortened."""
    lines = [line for line in text.strip().splitlines() if line and not line.startswith(" ")]
    return (lines[-1] if lines else "no message")[:160]


def run(command, path, limit):
    environment = {**os.environ, "PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment)
    except subprocess.TimeoutExpired:
        return 1, f"took more than {limit} s"
    return done.returncode, done.stdout + ("" if done.returncode == 0 else done.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--judge", default=sys.executable)
    parser.add_argument("--ours", default=sys.executable)
    parser.add_argument("--judge-path", default="", help="PYTHONPATH of the first")
    parser.add_argument("--ours-path", default=str(pathlib.Path(__file__).resolve().parents[1]))
    parser.add_argument("--models", default="")
    parser.add_argument("--suite", choices=["timm", "hf", "graphs", "all"], default="all")
    parser.add_argument("--generate", action="store_true", help="generate() with a key-value cache too")
    parser.add_argument("--seconds", type=int, default=120, help="limit of one process")
    parser.add_argument("--worker", choices=["judge", "ours"])
    parser.add_argument("--path")
    options = parser.parse_args()
    if options.worker:
        {"judge": judge, "ours": ours}[options.worker](options.models, options.path, options.generate)
        return 0
    suites = {"timm": TIMM, "hf": list(HF), "graphs": list(GRAPHS)}
    names = options.models.split(",") if options.models else [n for s, own in suites.items() if options.suite in (s, "all") for n in own]
    here, causes, good, more = os.path.abspath(__file__), collections.defaultdict(list), 0, ["--generate"] if options.generate else []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = os.path.join(folder, "saved.pt")
            common = ["--models", name, "--path", path, *more]
            code, text = run([options.judge, here, "--worker", "judge", *common], options.judge_path, options.seconds)
            if code:
                print(f"{name:40} judge: {cause(text)}", flush=True)
                causes[f"under PyTorch: {cause(text)}"].append(name)
                continue
            code, text = run([options.ours, "-m", "rushlight", here, "--worker", "ours", *common], options.ours_path, options.seconds)
            good += code == 0
            print(f"{name:40} {text.strip().splitlines()[-1] if code == 0 else cause(text)}", flush=True)
            if code:
                causes[cause(text)].append(name)
    print(f"\n{good} of {len(names)} equal")
    for text, failed in sorted(causes.items(), key=lambda item: -len(item[1])):
        print(f"{len(failed):3}  {text}\n     {' '.join(failed)}")
    return 0


if __name__ == "__main__":
    try:
        code = main()
    except Exception:
        traceback.print_exc()
        code = 1
    sys.exit(code)
