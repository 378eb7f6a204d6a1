"""Plain PyTorch programs: the models of ``benchmarks/models`` in small, and others of the kind that people write
themselves."""
from __future__ import annotations

from . import Made, numbers, whole

CASES = {"nanoGPT_model": "nanogpt", "nanogpt": "nanogpt", "ddpm_unet": "unet-train", "dlrm_embbag": "dlrm-train",
         "lm_lstm": "lstm-train", "BERT_pytorch": "bert-train", "llama": "gpt2"}
OWN = """classic_unet lm_gru lm_rnn nn_transformer_encoder nn_transformer_seq2seq packed_bilstm_tagger ppo_categorical vae yolo_like dcgan lennard_jones maml
 nvidia_deeprecommender phlippe_densenet phlippe_resnet tts_angular dlrm_sparse""".split()
NAMES = [*CASES, *OWN]


def build(torch, name):
    if name in CASES:
        from benchmarks.models.cases import CASES as ALL
        case = ALL[CASES[name]]
        arrays = case.inputs(True)
        return Made(case.model(torch, True),
                    {f"a{k}": a for k, a in enumerate(arrays[:len(arrays) if case.given is None else case.given])},
                    lambda model, **given: model(*given.values()))
    from . import modules
    return {
        "classic_unet": lambda: Made(modules.UNet(), {"x": numbers(2, 3, 32, 32)}),
        "lm_gru": lambda: Made(modules.Recurrent(torch.nn.GRU), {"ids": whole(0, 50, 2, 9)}),
        "lm_rnn": lambda: Made(modules.Recurrent(torch.nn.RNN), {"ids": whole(0, 50, 2, 9)}),
        "nn_transformer_encoder": lambda: Made(modules.Encoder(), {"ids": whole(1, 50, 3, 9)}),
        "nn_transformer_seq2seq": lambda: Made(modules.Translator(),
                                               {"source": whole(1, 50, 3, 9), "target": whole(1, 50, 3, 7, seed=2)}),
        "packed_bilstm_tagger": lambda: Made(modules.Tagger(), {"ids": whole(1, 50, 3, 8)}),
        "ppo_categorical": lambda: Made(modules.Policy(), {"state": numbers(6, 4), "actions": whole(0, 3, 6)}),
        "vae": lambda: Made(modules.Autoencoder(), {"x": numbers(2, 1, 28, 28), "noise": numbers(2, 8, seed=4)}),
        "yolo_like": lambda: Made(modules.Detector(), {"x": numbers(2, 3, 64, 64)}),
        "dcgan": lambda: Made(modules.Generator(), {"z": numbers(2, 16, 1, 1)}),
        "lennard_jones": lambda: Made(modules.Potential(), {"r": abs(numbers(12, 1)) + 1}),
        "maml": lambda: Made(modules.Adapting(), {"x": numbers(6, 1, 14, 14), "y": whole(0, 5, 6)}),
        "nvidia_deeprecommender": lambda: Made(modules.recommender(), {"input": numbers(4, 60)}),
        "phlippe_densenet": lambda: Made(modules.DenseNet(), {"x": numbers(2, 3, 32, 32)}),
        "phlippe_resnet": lambda: Made(modules.ResNet(), {"x": numbers(2, 3, 32, 32)}),
        "tts_angular": lambda: Made(modules.Speaker(), {"x": numbers(3, 10, 20)}),
        "dlrm_sparse": lambda: Made(modules.Bags(), {"ids": whole(0, 30, 4, 5), "dense": numbers(4, 6)}),
    }[name]()
