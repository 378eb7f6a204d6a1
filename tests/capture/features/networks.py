"""Modules: parameters, buffers, containers, hooks, training mode, recurrent networks, attributes that change."""
import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F

from .table import case


def seeded(make):
    def given():
        torch.manual_seed(0)
        return (make(),)
    return given


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("seen", torch.zeros(()))
        self.calls, self.log = 0, []

    def forward(self, x, skip=True):
        self.calls += 1
        self.seen += 1
        y = self.second(F.relu(self.first(x))) * self.scale
        self.log.append(self.calls)
        return x + y if skip else y


@case(given=seeded(lambda: nn.Linear(4, 3)))
def linear(x, m):
    return m(x)


@case(given=seeded(Block))
def state_of_module(x, m):
    return m(x), m(x, skip=False), m.calls, m.seen


@case(given=seeded(lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.0))))
def sequential(x, m):
    return m(x), len(m), m[0](x).shape


@case(given=seeded(lambda: nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])))
def module_list(x, layers):
    for layer in layers:
        x = layer(x)
    for k, layer in enumerate(layers[1:]):
        x = layer(x) * k
    return x, len(layers)


@case(given=seeded(lambda: nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.ReLU()})))
def module_dict(x, parts):
    for name, part in parts.items():
        x = part(x) + len(name)
    return x, "a" in parts, list(parts.keys()), parts["b"](x)


@case(given=seeded(lambda: nn.ParameterList([torch.ones(4), torch.zeros(4)])))
def parameter_list(x, p):
    return x * p[0] + p[1], len(p), sum(v.sum() for v in p)


@case(given=seeded(Block))
def parameters_listed(x, m):
    return sum(p.numel() for p in m.parameters()), [n for n, _ in m.named_parameters()], [
        n for n, _ in m.named_modules()], x * sum((p * p).sum() for p in m.parameters())


@case(given=seeded(lambda: nn.BatchNorm1d(2)))
def batch_norm_trains(x, m):
    return m(x.view(2, 2)), m.training, m.num_batches_tracked


@case(given=seeded(lambda: nn.BatchNorm1d(2).eval()))
def batch_norm_evaluates(x, m):
    return m(x.view(2, 2)), m.training


@case(given=seeded(lambda: nn.Conv2d(1, 2, 3, padding=1)))
def convolution(x, m):
    return m(x.view(1, 1, 2, 2))


@case(given=seeded(lambda: nn.LSTM(4, 3, batch_first=True)))
def lstm(x, m):
    out, (h, c) = m(x.view(1, 1, 4))
    return out, h + c


@case(given=seeded(lambda: nn.GRU(4, 3, num_layers=2, bidirectional=True)))
def gru(x, m):
    return m(x.view(1, 1, 4))


@case(given=seeded(lambda: nn.LSTMCell(4, 3)))
def lstm_cell_loop(x, cell):
    h = c = torch.zeros(1, 3)
    for _ in range(3):
        h, c = cell(x.view(1, 4), (h, c))
    return h, c


@case(given=seeded(lambda: nn.RNN(4, 2, nonlinearity="relu")))
def rnn(x, m):
    return m(x.view(1, 1, 4))[0]


@case(given=seeded(lambda: nn.MultiheadAttention(4, 2, batch_first=True)))
def attention(x, m):
    q = x.view(1, 1, 4)
    return m(q, q, q, need_weights=False)[0]


@case(given=seeded(lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)))
def transformer_layer(x, m):
    return m(x.view(1, 1, 4))


@case(given=seeded(lambda: nn.Embedding(5, 3)))
def embedding(x, m):
    return m(torch.tensor([0, 2])), x


def hooked():
    m = nn.Linear(4, 4)
    m.register_forward_hook(lambda module, args, out: out * 2)
    m.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    return m


@case(given=seeded(hooked))
def forward_hooks(x, m):
    return m(x)


def recording():
    m = nn.Linear(4, 4)
    m.outputs = []
    m.register_forward_hook(lambda module, args, out: module.outputs.append(out.shape))
    return m


@case(given=seeded(recording))
def forward_hook_with_effect(x, m):
    return m(m(x)), m.outputs


@case(given=seeded(lambda: nn.Linear(4, 4)))
def functional_call(x, m):
    return torch.func.functional_call(m, {"weight": torch.eye(4), "bias": torch.zeros(4)}, (x,))


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.n, self.cache = 0, {}

    def forward(self, x):
        self.n += 1
        key = tuple(x.shape)
        if key not in self.cache:
            self.cache[key] = x.shape[0] * 2
        return x * self.cache[key] + self.n


@case(given=seeded(Counting))
def cache_on_module(x, m):
    return m(x), m(x), m.n


class Switching(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = "train"

    def forward(self, x):
        return x * 2 if self.training and self.mode == "train" else x


@case(given=seeded(Switching))
def switch_to_eval(x, m):
    a = m(x)
    m.eval()
    b = m(x)
    m.train()
    return a, b


class Reentrant(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.child = Reentrant(depth - 1) if depth else None

    def forward(self, x):
        return x + 1 if self.child is None else self.child(x) * 2


@case(given=seeded(lambda: Reentrant(4)))
def nested_modules(x, m):
    return m(x)


class Property(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight_ = nn.Parameter(torch.ones(4))

    @property
    def weight(self):
        return self.weight_ * 2

    def __getattr__(self, name):
        if name == "virtual":
            return 7
        return super().__getattr__(name)

    def forward(self, x):
        return x * self.weight + self.virtual


@case(given=seeded(Property))
def property_of_module(x, m):
    return m(x)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = self.a

    def forward(self, x):
        return self.b(self.a(x))


@case(given=seeded(Shared))
def shared_weights(x, m):
    return m(x), m.a is m.b, len(list(m.parameters()))


class Inherited(Block):
    def forward(self, x):
        return super().forward(x) * 2


@case(given=seeded(Inherited))
def inherited_forward(x, m):
    return m(x)


class Optional(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_parameter("bias", None)
        self.register_buffer("mask", torch.tensor([1.0, 0.0, 1.0, 0.0]), persistent=False)

    def forward(self, x):
        return x * self.mask if self.bias is None else x + self.bias


@case(given=seeded(Optional))
def absent_parameter(x, m):
    return m(x), hasattr(m, "bias"), m.bias


@case(given=seeded(lambda: nn.Linear(4, 1)))
def loss_and_gradient(x, m):
    return F.mse_loss(m(x), torch.ones(1))


@case(2, "RB004", given=seeded(lambda: nn.Linear(4, 1)))
def training_step(x, m):
    opt = torch.optim.SGD(m.parameters(), lr=0.1)
    loss = m(x).sum()
    loss.backward()
    opt.step()
    return loss.detach(), m.weight.detach().clone()


class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean = self.mean * 0.9 + x * 0.1
        return x - self.mean


@case(given=seeded(Buffered))
def buffer_replaced(x, m):
    return m(x), m(x), m.mean


class Made(nn.Module):
    def forward(self, x):
        return F.interpolate(x.view(1, 1, 4), scale_factor=2) + F.pad(x, (1, 1)).sum()


@case(given=seeded(Made))
def functional_zoo(x, m):
    return m(x)


@case()
def module_made_inside(x):
    layer = nn.Sequential(nn.ReLU(), nn.Flatten(0))
    return layer(x), len(layer)


@case(given=seeded(lambda: Block))
def network_made_inside(x, make):
    net = make()
    out = net(x)
    return (out * 0).sum() + sum(p.numel() for p in net.parameters()), [
        n for n, _ in net.named_parameters()], net.calls, net.seen, out.requires_grad


@case()
def parameters_made_inside(x):
    p, q = nn.Parameter(torch.ones(4)), nn.Parameter(torch.arange(4.0), requires_grad=False)
    with torch.no_grad():
        p.mul_(3)
    (p * x * q).sum().backward()
    return p, p.grad, q, isinstance(p, nn.Parameter), type(q) is nn.Parameter


@case()
def network_trained_inside(x):
    net = nn.Linear(4, 2)
    nn.init.constant_(net.weight, 0.5)
    nn.init.zeros_(net.bias)
    net(x).square().sum().backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
    net.zero_grad()
    return net, net.weight.grad


@case(breaks="RB001")
def parameter_over_memory_from_outside(x):
    p = nn.Parameter(x)
    with torch.no_grad():
        p.add_(1)
    return p, x


@case(breaks="RB011", graphs=2)
def parameter_made_of_what_is_seen(x):
    t = torch.zeros(4)
    p = nn.Parameter(t)
    with torch.no_grad():
        p.add_(1)
    return p, t + x
