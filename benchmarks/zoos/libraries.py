"""Other libraries over PyTorch: what each is for, on a small problem.

Random numbers differ between the libraries, so nothing here draws any that matter: weights come from NumPy, batches
come in order.
"""
from __future__ import annotations

import contextlib
import io
import tempfile
import zlib

import numpy as np

from . import Made, numbers, whole

BUILDERS: dict = {}


def library(function):
    """Enters a builder, named by its library."""
    BUILDERS["lib_" + function.__name__] = function
    return function


def build(torch, name):
    return BUILDERS[name](torch)


def draw(torch, module):
    """Weights that are the same in every library."""
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.copy_(torch.from_numpy(0.2 * numbers(*p.shape, seed=zlib.crc32(name.encode()))))
    return module


def Task(torch, function, **parts):
    """A module that does ``function(self, **given)``, with parts of its own."""
    class Doing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.zeros(()))
            for name, part in parts.items():
                setattr(self, name, part)

        def forward(self, **given):
            return function(self, **given)

    return Doing()


def quietly(function):
    """What a function gives, without what it prints."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return function()


def classifier(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = draw(torch, torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.GELU(),
                                                         torch.nn.Linear(16, 3)))

        def forward(self, X):
            return self.inner(X).softmax(-1)

    return Net


# --- shapes and layers ------------------------------------------------------------------------------------------------
@library
def einops(torch):
    from einops import rearrange, reduce, repeat
    from einops.layers.torch import EinMix, Rearrange, Reduce

    layers = torch.nn.Sequential(Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4), torch.nn.Linear(48, 16),
                                 EinMix("b n d -> b n e", weight_shape="d e", d=16, e=8),
                                 Reduce("b n e -> b e", "mean"))
    return Made(Task(torch, lambda self, x: (self.layers(x),
                                             reduce(repeat(rearrange(self.layers[1].weight, "a b -> b a"),
                                                           "a b -> a b 2"), "a b c -> b", "max")), layers=layers),
                {"x": numbers(2, 3, 16, 16)})


@library
def x_transformers(torch):
    from x_transformers import Decoder, TransformerWrapper

    model = TransformerWrapper(num_tokens=64, max_seq_len=32,
                               attn_layers=Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True, use_rmsnorm=True,
                                                   ff_glu=True))
    return Made(model, {"x": whole(0, 64, 2, 16)})


@library
def vit_pytorch(torch):
    from vit_pytorch import SimpleViT, ViT
    from vit_pytorch.cct import CCT

    common = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 64}
    small = CCT(img_size=32, embedding_dim=32, n_conv_layers=1, num_layers=2, num_heads=2, mlp_ratio=2., num_classes=5,
                positional_embedding="learnable", stochastic_depth_rate=0.0)
    return Made(Task(torch, lambda self, x: [part(x) for part in self.parts],
                     parts=torch.nn.ModuleList([ViT(**common), SimpleViT(**common), small])),
                {"x": numbers(2, 3, 32, 32)})


@library
def torchinfo(torch):
    from torchinfo import summary

    def told(self):
        text = str(summary(self.net, (2, 3, 32, 32), col_names=("input_size", "output_size", "num_params", "mult_adds"),
                           verbose=0))
        return torch.tensor([float(b) for line in text.splitlines() if "MB" not in line for b in line.encode()])

    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
                              torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 4))
    return Made(Task(torch, told, net=net), {}, plain=True)


# --- images -----------------------------------------------------------------------------------------------------------
@library
def kornia(torch):
    import kornia as K

    def see(self, x):
        image = (x * 0.2 + 0.5 + self.bias).clamp(0, 1)
        turned = K.geometry.rotate(image, torch.tensor([15.0, -30.0]))
        warped = K.geometry.warp_perspective(image, torch.eye(3)[None].repeat(2, 1, 1) + 0.001, (20, 24))
        return [K.filters.gaussian_blur2d(image, (5, 5), (1.5, 1.5)), K.filters.sobel(image), K.filters.canny(image)[0],
                K.color.rgb_to_lab(image), K.color.rgb_to_hsv(image), turned, warped,
                K.losses.ssim_loss(image, turned, 5), K.enhance.adjust_contrast(image, 1.3),
                K.enhance.equalize_clahe(image), K.morphology.dilation(image, torch.ones(3, 3)),
                K.feature.harris_response(image), K.geometry.transform.resize(image, (12, 12)),
                K.filters.median_blur(image, (3, 3))]

    return Made(Task(torch, see), {"x": numbers(2, 3, 24, 24)})


@library
def segmentation_models_pytorch(torch):
    import segmentation_models_pytorch as smp

    def losses(self, x, mask):
        outputs = [part(x) for part in self.parts]
        return [*outputs, smp.losses.DiceLoss("multiclass")(outputs[0], mask),
                smp.losses.FocalLoss("multiclass")(outputs[1], mask),
                smp.losses.JaccardLoss("multiclass")(outputs[0], mask)]

    parts = [smp.Unet("resnet18", encoder_weights=None, classes=3),
             smp.FPN("resnet18", encoder_weights=None, classes=3)]
    return Made(Task(torch, losses, parts=torch.nn.ModuleList(parts)),
                {"x": numbers(2, 3, 64, 64), "mask": whole(0, 3, 2, 64, 64)})


@library
def monai(torch):
    from monai.data import set_track_meta
    from monai.inferers import sliding_window_inference
    from monai.losses import DiceCELoss
    from monai.metrics import compute_dice
    from monai.networks.nets import UNet
    from monai.transforms import Compose, NormalizeIntensity, ScaleIntensity

    net = UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1)

    set_track_meta(False)  # tensors that carry a dict named as ours carry theirs are not possible

    def segment(self, x, mask):
        prepared = torch.stack([torch.as_tensor(np.asarray(Compose([ScaleIntensity(), NormalizeIntensity()])(one)))
                                for one in x])
        y = self.net(prepared)
        return [y, DiceCELoss(to_onehot_y=True, softmax=True)(y, mask),
                compute_dice(torch.nn.functional.one_hot(y.argmax(1), 2).movedim(-1, 1),
                             torch.cat([1 - mask, mask], 1)),
                sliding_window_inference(prepared, (16, 16), 2, self.net, overlap=0.25)]

    return Made(Task(torch, segment, net=net), {"x": numbers(2, 1, 32, 32), "mask": whole(0, 2, 2, 1, 32, 32)})


@library
def torchvision(torch):
    from PIL import Image
    from torchvision import ops, transforms

    def seen(self, x, boxes, scores):
        picture = Image.fromarray((np.abs(x[0, 0].numpy() * 80).clip(0, 255)).astype(np.uint8)).convert("RGB")
        # ops compiled for PyTorch (nms, roi_align) are not among these: they load only beside the version they were
        # built for
        steps = transforms.Compose([transforms.Resize(20), transforms.CenterCrop(16), transforms.ToTensor(),
                                    transforms.Normalize((0.5,) * 3, (0.2,) * 3)])
        corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:].abs() + 1], 1)
        return [steps(picture), ops.box_iou(corners, corners), ops.masks_to_boxes((x[:, 0] > 1)),
                ops.sigmoid_focal_loss(scores + self.bias, (scores > 0).float()),
                ops.generalized_box_iou(corners, corners)]

    return Made(Task(torch, seen), {"x": numbers(2, 3, 24, 24), "boxes": 10 * np.abs(numbers(9, 4, seed=3)),
                                    "scores": numbers(9, seed=4)}, plain=True)


@library
def open_clip(torch):
    from open_clip.loss import ClipLoss
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    model = CLIP(32, CLIPVisionCfg(layers=2, width=64, head_width=32, patch_size=8, image_size=32),
                 CLIPTextCfg(context_length=16, vocab_size=64, width=64, heads=2, layers=2))

    def compare(model, image, text):
        found = model(image, text)
        return [*found, ClipLoss()(*found)]

    return Made(model, {"image": numbers(3, 3, 32, 32), "text": whole(0, 64, 3, 16)}, compare)


@library
def diffusers(torch):
    from diffusers import AutoencoderKL, DDIMScheduler, DDPMScheduler, UNet2DConditionModel

    unet = UNet2DConditionModel(sample_size=8, in_channels=4, out_channels=4, layers_per_block=1,
                                block_out_channels=(16, 32), down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                                up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=16,
                                attention_head_dim=8, norm_num_groups=8)
    coder = AutoencoderKL(block_out_channels=(16, 32), down_block_types=("DownEncoderBlock2D",) * 2,
                          up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4, norm_num_groups=8)

    def diffuse(self, image, noise, words):
        latent = self.coder.encode(image).latent_dist.mode()
        noisy = DDPMScheduler().add_noise(latent, noise, torch.tensor([10, 500]))
        predicted = self.unet(noisy, torch.tensor([10, 500]), encoder_hidden_states=words).sample
        scheduler, sample = DDIMScheduler(), noise
        scheduler.set_timesteps(3)
        with torch.no_grad():
            for t in scheduler.timesteps:
                sample = scheduler.step(self.unet(sample, t, encoder_hidden_states=words).sample, t, sample).prev_sample
        return [predicted, self.coder.decode(latent).sample, sample]

    return Made(Task(torch, diffuse, unet=unet, coder=coder),
                {"image": numbers(2, 3, 16, 16), "noise": numbers(2, 4, 8, 8, seed=2),
                 "words": numbers(2, 5, 16, seed=3)}, plain=True)


# --- language ---------------------------------------------------------------------------------------------------------
def small_llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                        num_attention_heads=4, num_key_value_heads=2, vocab_size=64, pad_token_id=0))


@library
def peft(torch):
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(small_llama(), LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"],
                                                     lora_dropout=0.0, task_type="CAUSAL_LM"))

    def adapted(model, ids):
        with_adapter = model(input_ids=ids, labels=ids)
        with model.disable_adapter():
            without = model(input_ids=ids).logits
        return [with_adapter.loss, with_adapter.logits, without]

    return Made(model, {"ids": whole(3, 64, 2, 8)}, adapted, plain=True)


@library
def sentence_transformers(torch):
    from sentence_transformers import SentenceTransformer, losses, models, util
    from transformers import BertConfig, BertModel, BertTokenizerFast

    with tempfile.TemporaryDirectory() as folder:
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"a the cat dog sat ran on mat fast slow".split()]
        with open(f"{folder}/vocab.txt", "w") as file:
            file.write("\n".join(words))
        BertTokenizerFast(f"{folder}/vocab.txt").save_pretrained(folder)
        BertModel(BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                             vocab_size=len(words), hidden_dropout_prob=0.0,
                             attention_probs_dropout_prob=0.0)).save_pretrained(folder)
        model = SentenceTransformer(modules=[word := models.Transformer(folder),
                                             models.Pooling(word.get_word_embedding_dimension()), models.Normalize()],
                                    device="cpu")

    def similar(model):
        sentences = ["the cat sat on the mat", "a dog ran fast", "the cat sat"]
        coded = model.encode(sentences, convert_to_tensor=True, show_progress_bar=False)
        pairs = [model.tokenize(sentences[:2]), model.tokenize(sentences[1:])]
        return [coded.clone(), util.cos_sim(coded, coded), losses.MultipleNegativesRankingLoss(model)(pairs, None)]

    return Made(model, {}, similar, plain=True)


# --- training loops and metrics ---------------------------------------------------------------------------------------
@library
def lightning(torch):
    import lightning as L

    class Model(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = classifier(torch)()

        def loss(self, batch, name):
            x, y = batch
            loss = torch.nn.functional.nll_loss(self.net(x).log(), y)
            self.log(name, loss)
            return loss

        def training_step(self, batch, index):
            return self.loss(batch, "train")

        def validation_step(self, batch, index):
            self.loss(batch, "valid")

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

    def fit(self, x, y):
        model, data = Model(), torch.utils.data.TensorDataset(x, y)
        with tempfile.TemporaryDirectory() as folder:
            trainer = L.Trainer(max_epochs=3, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False,
                                enable_model_summary=False, default_root_dir=folder, gradient_clip_val=1.0)
            trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=8),
                        torch.utils.data.DataLoader(data, batch_size=16))
            trainer.save_checkpoint(f"{folder}/last.ckpt")
            again = Model.load_from_checkpoint(f"{folder}/last.ckpt", weights_only=False)
        return [again.net(x), trainer.callback_metrics["train"], trainer.callback_metrics["valid"]]

    return Made(Task(torch, fit), {"x": numbers(32, 6), "y": whole(0, 3, 32)}, plain=True)


@library
def skorch(torch):
    from skorch import NeuralNetClassifier
    from sklearn.model_selection import GridSearchCV

    def fit(self, x, y):
        net = NeuralNetClassifier(classifier(torch), max_epochs=4, lr=0.1, batch_size=8, iterator_train__shuffle=False,
                                  train_split=None, verbose=0)
        net.fit(x.numpy(), y.numpy())
        search = GridSearchCV(net, {"lr": [0.05, 0.2]}, cv=2, scoring="accuracy").fit(x.numpy(), y.numpy())
        return [torch.from_numpy(net.predict_proba(x.numpy())), torch.from_numpy(search.cv_results_["mean_test_score"])]

    return Made(Task(torch, fit), {"x": numbers(32, 6), "y": whole(0, 3, 32)}, plain=True)


@library
def torchmetrics(torch):
    import torchmetrics.functional as M
    from torchmetrics import Accuracy, ConfusionMatrix, F1Score, MeanMetric, MetricCollection

    def measured(self, scores, y, a, b):
        kept = MetricCollection({"accuracy": Accuracy("multiclass", num_classes=4),
                                 "f1": F1Score("multiclass", num_classes=4, average="macro"),
                                 "confusion": ConfusionMatrix("multiclass", num_classes=4)})
        for part in range(2):
            kept.update(scores[part::2], y[part::2])
        mean = MeanMetric()
        mean.update(a)
        image, other = a.reshape(1, 1, 16, 16), b.reshape(1, 1, 16, 16)
        return [*(v.float() for v in kept.compute().values()), mean.compute(),
                M.auroc(scores.softmax(-1), y, task="multiclass", num_classes=4),
                M.average_precision(scores.softmax(-1), y, task="multiclass", num_classes=4),
                M.mean_squared_error(a, b), M.r2_score(a, b), M.pearson_corrcoef(a, b),
                M.spearman_corrcoef(a, b), M.structural_similarity_index_measure(image, other),
                M.peak_signal_noise_ratio(a, b, data_range=1.0), M.cosine_similarity(image[0, 0], other[0, 0]),
                M.kl_divergence(image[0, 0].softmax(-1), other[0, 0].softmax(-1)),
                M.calibration_error(scores.softmax(-1), y, task="multiclass", num_classes=4)]

    return Made(Task(torch, measured), {"scores": numbers(40, 4), "y": whole(0, 4, 40), "a": numbers(256),
                                        "b": numbers(256, seed=3)}, plain=True)


@library
def pytorch_metric_learning(torch):
    from pytorch_metric_learning import losses, miners

    def compare(self, x, y):
        found = self.net(x)
        return [losses.TripletMarginLoss()(found, y), losses.NTXentLoss()(found, y), losses.CircleLoss()(found, y),
                losses.MultiSimilarityLoss()(found, y, miners.MultiSimilarityMiner()(found, y))]

    return Made(Task(torch, compare, net=torch.nn.Linear(6, 8)), {"x": numbers(24, 6), "y": whole(0, 4, 24)})


# --- probability and differential equations ---------------------------------------------------------------------------
@library
def gpytorch(torch):
    import gpytorch as G

    class Model(G.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module, self.covar_module = (G.means.ConstantMean(),
                                                   G.kernels.ScaleKernel(G.kernels.RBFKernel()
                                                                         + G.kernels.MaternKernel(nu=2.5)))

        def forward(self, x):
            return G.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x = torch.linspace(0, 1, 20)
    y = torch.sin(6 * x)

    def regress(model, at):
        model.train(), model.likelihood.train()
        loss = -G.mlls.ExactMarginalLogLikelihood(model.likelihood, model)(model(x.to(at.dtype)), y.to(at.dtype))
        model.eval(), model.likelihood.eval()
        with torch.no_grad(), G.settings.fast_pred_var():
            predicted = model.likelihood(model(at))
        return [loss, predicted.mean, predicted.variance]

    return Made(Model(x, y, G.likelihoods.GaussianLikelihood()), {"at": np.linspace(0, 1, 7, dtype=np.float32)},
                regress, plain=True)


@library
def pyro(torch):
    import pyro as P
    import pyro.distributions as D
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoDelta

    def infer(self, x, y):
        P.clear_param_store()

        def model(x, y):
            weight = P.sample("weight", D.Normal(torch.zeros(6), 1.0).to_event(1))
            scale = P.sample("scale", D.HalfCauchy(torch.ones(())))
            with P.plate("data", len(x)):
                P.sample("seen", D.Normal(x @ weight, scale), obs=y)

        guide = AutoDelta(model, init_loc_fn=P.infer.autoguide.init_to_value(values={"weight": torch.zeros(6),
                                                                                     "scale": torch.ones(())}))
        fit = SVI(model, guide, P.optim.Adam({"lr": 0.05}), Trace_ELBO())
        losses = [fit.step(x, y) for _ in range(20)]
        return [torch.tensor(losses), *guide.median().values(),
                P.poutine.trace(P.poutine.condition(model, guide.median())).get_trace(x, y).log_prob_sum()]

    return Made(Task(torch, infer), {"x": numbers(30, 6), "y": numbers(30, seed=5)}, plain=True)


@library
def torchdiffeq(torch):
    from torchdiffeq import odeint, odeint_adjoint

    class Field(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))

        def forward(self, t, y):
            return self.net(y) - y * t

    times = torch.linspace(0, 1, 5)
    return Made(Field(), {"y": numbers(4, 2)}, lambda model, y: [odeint(model, y, times.to(y.dtype), method="rk4"),
                                                                 odeint(model, y, times.to(y.dtype), rtol=1e-5,
                                                                        atol=1e-6), odeint_adjoint(
        model, y, times.to(y.dtype), method="rk4")])


NAMES = list(BUILDERS)
