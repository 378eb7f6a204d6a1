"""A call of each operator that a list of autocast names, in PyTorch's spelling: ``x`` and ``y`` are 4 x 4."""


def unary(*names):
    return {name: lambda t, F, x, y, name=name: getattr(t, name)(x) for name in names}


def loss(*names):
    return {name: lambda t, F, x, y, name=name: getattr(F, name)(x, y) for name in names}


PLAIN = ("sin", "cos", "tanh", "sigmoid", "sqrt", "abs", "neg", "mean", "std", "var", "amax", "erf", "relu",
         "lgamma", "exp2", "nansum", "trace")
CALLS = {
    **unary("acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt",
            "sinh", "tan", "square", "sum", "prod", "norm", "nuclear_norm", "pdist", *PLAIN),
    **loss("l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss", "kl_div", "soft_margin_loss", "poisson_nll_loss",
           "hinge_embedding_loss", "binary_cross_entropy_with_logits", "cosine_similarity", "pairwise_distance"),
    **{name: lambda t, F, x, y, name=name: getattr(t, name)(x, y) for name in
       ("matmul", "mm", "cdist", "dist", "atan2", "tensordot", "add", "mul", "div", "maximum", "hypot", "logaddexp",
        "inner", "kron", "xlogy")},
    **{name: lambda t, F, x, y, name=name: getattr(t, name)(x, -1) for name in
       ("cumsum", "cumprod", "logcumsumexp", "logsumexp", "softmax", "log_softmax")},
    "pow": lambda t, F, x, y: x ** y, "pow_number": lambda t, F, x, y: x ** 3, "rpow": lambda t, F, x, y: 2.0 ** x,
    **{name: lambda t, F, x, y, name=name: getattr(F, name)(x.reshape(1, 4, 2, 2), 2) for name in
       ("avg_pool2d", "avg_pool3d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "max_pool2d", "max_pool3d",
        "adaptive_max_pool2d", "adaptive_max_pool3d")},
    "fractional_max_pool3d": lambda t, F, x, y: F.fractional_max_pool3d(x.reshape(1, 4, 2, 2), 1, output_size=1),
    "softmin": lambda t, F, x, y: F.softmin(x, -1), "gumbel": lambda t, F, x, y: F.gumbel_softmax(x, dim=-1),
    "softplus": lambda t, F, x, y: F.softplus(x), "logsigmoid": lambda t, F, x, y: F.logsigmoid(x),
    "gelu": lambda t, F, x, y: F.gelu(x), "normalize": lambda t, F, x, y: F.normalize(x),
    "layer_norm": lambda t, F, x, y: F.layer_norm(x, (4,)), "group_norm": lambda t, F, x, y: F.group_norm(x, 2),
    "rms_norm": lambda t, F, x, y: F.rms_norm(x, (4,)),
    "batch_norm": lambda t, F, x, y: F.batch_norm(x, None, None, training=True),
    "instance_norm": lambda t, F, x, y: F.instance_norm(x.reshape(1, 4, 4)),
    "renorm": lambda t, F, x, y: t.renorm(x, 2, 0, 1.0),
    "vector_norm": lambda t, F, x, y: t.linalg.vector_norm(x), "linalg_norm": lambda t, F, x, y: t.linalg.norm(x),
    "matrix_norm": lambda t, F, x, y: t.linalg.matrix_norm(x),
    "cross_entropy": lambda t, F, x, y: F.cross_entropy(x, y),
    "margin_ranking": lambda t, F, x, y: F.margin_ranking_loss(t.select(x, 0, 0), t.select(x, 0, 1), t.select(y, 0, 0)),
    "cosine_embedding": lambda t, F, x, y: F.cosine_embedding_loss(x, y, t.select(y, 0, 0)),
    "triplet_margin": lambda t, F, x, y: F.triplet_margin_loss(x, y, x),
    "multilabel_soft_margin": lambda t, F, x, y: F.multilabel_soft_margin_loss(x, y),
    "binary_cross_entropy": lambda t, F, x, y: F.binary_cross_entropy(x, y),
    "linear": lambda t, F, x, y: F.linear(x, y), "linear_bias": lambda t, F, x, y: F.linear(x, y, t.select(y, 0, 0)),
    "bilinear": lambda t, F, x, y: F.bilinear(x, y, x.reshape(1, 4, 4).expand(2, 4, 4)),
    "addmm": lambda t, F, x, y: t.addmm(x, x, y),
    "addmv": lambda t, F, x, y: t.addmv(t.select(x, 0, 0), x, t.select(y, 0, 0)),
    "addr": lambda t, F, x, y: t.addr(x, t.select(y, 0, 0), t.select(y, 0, 0)),
    "mv": lambda t, F, x, y: t.mv(x, t.select(y, 0, 0)),
    "bmm": lambda t, F, x, y: t.bmm(x.reshape(1, 4, 4), y.reshape(1, 4, 4)),
    "baddbmm": lambda t, F, x, y: t.baddbmm(x, x.reshape(1, 4, 4), y.reshape(1, 4, 4)),
    "addbmm": lambda t, F, x, y: t.addbmm(x, x.reshape(1, 4, 4), y.reshape(1, 4, 4)),
    "outer": lambda t, F, x, y: t.outer(t.select(x, 0, 0), t.select(y, 0, 0)),
    "multi_dot": lambda t, F, x, y: t.linalg.multi_dot([x, y, x]),
    "chain_matmul": lambda t, F, x, y: t.chain_matmul(x, y, x),
    "einsum": lambda t, F, x, y: t.einsum("ij,jk->ik", x, y),
    "dot": lambda t, F, x, y: t.dot(t.select(x, 0, 0), t.select(y, 0, 0)),
    "vdot": lambda t, F, x, y: t.vdot(t.select(x, 0, 0), t.select(y, 0, 0)),
    "vecdot": lambda t, F, x, y: t.linalg.vecdot(x, y),
    "cross": lambda t, F, x, y: t.cross(x.narrow(1, 0, 3), y.narrow(1, 0, 3), dim=1),
    "prelu": lambda t, F, x, y: F.prelu(x, t.select(y, 0, 0)),
    "conv1d": lambda t, F, x, y: F.conv1d(x.reshape(1, 4, 4), y.narrow(0, 0, 2).unsqueeze(2)),
    "conv2d": lambda t, F, x, y: F.conv2d(x.reshape(1, 1, 4, 4), y.reshape(1, 1, 4, 4)),
    "conv3d": lambda t, F, x, y: F.conv3d(x.reshape(1, 1, 1, 4, 4), y.reshape(1, 1, 1, 4, 4)),
    "conv_transpose1d": lambda t, F, x, y: F.conv_transpose1d(x.reshape(1, 4, 4), y.narrow(1, 0, 2).unsqueeze(2)),
    "conv_transpose2d": lambda t, F, x, y: F.conv_transpose2d(x.reshape(1, 1, 4, 4), y.reshape(1, 1, 4, 4)),
    "conv_transpose3d": lambda t, F, x, y: F.conv_transpose3d(x.reshape(1, 1, 1, 4, 4), y.reshape(1, 1, 1, 4, 4)),
    "attention": lambda t, F, x, y: F.scaled_dot_product_attention(x.reshape(1, 1, 4, 4), y.reshape(1, 1, 4, 4),
                                                                   y.reshape(1, 1, 4, 4)),
    "addcmul": lambda t, F, x, y: t.addcmul(x, y, y), "addcdiv": lambda t, F, x, y: t.addcdiv(x, y, y),
    "scatter_add": lambda t, F, x, y: t.scatter_add(x, 0, t.zeros_like(y, dtype=t.int64), y),
    "index_put": lambda t, F, x, y: t.index_put(x, (t.zeros_like(t.select(y, 0, 0), dtype=t.int64),), y),
    "grid_sample": lambda t, F, x, y: F.grid_sample(x.reshape(1, 1, 4, 4), y.reshape(1, 2, 4, 2),
                                                    align_corners=False),
    "cat": lambda t, F, x, y: t.cat([x, y]), "stack": lambda t, F, x, y: t.stack([x, y]),
    "nearest": lambda t, F, x, y: F.interpolate(x.reshape(1, 1, 4, 4), scale_factor=2),
    "bilinear_resize": lambda t, F, x, y: F.interpolate(x.reshape(1, 1, 4, 4), scale_factor=2, mode="bilinear"),
    "softmax_half": lambda t, F, x, y: F.softmax(x, -1, dtype=t.float16),
    "double": lambda t, F, x, y: x.double() @ y.double(), "double_exp": lambda t, F, x, y: x.double().exp(),
    "int": lambda t, F, x, y: x.int() + y.int(), "int_sum": lambda t, F, x, y: x.int().sum(),
    "lstm_cell": lambda t, F, x, y: t.lstm_cell(x, (x, x), y.repeat(4, 1), y.repeat(4, 1))[0],
    "gru_cell": lambda t, F, x, y: t.gru_cell(x, x, y.repeat(3, 1), y.repeat(3, 1)),
    "rnn_cell": lambda t, F, x, y: t.rnn_tanh_cell(x, x, y, y)}
OPERANDS = {"float": ("float32", "float32"), "half": ("float16", "float16"), "first": ("float16", "float32"),
            "second": ("float32", "float16")}
