"""The layers of a language model as networks, with all operators, at a batch and a number of tokens.

Scores above the diagonal of a causal mask are computed, then masked. A window bounds the part of the cache that a later
token reads. Tokens are spread evenly over experts: tokens times experts per token are busy, at most all experts.
Scaling by constants is part of the weights before it.
"""

from __future__ import annotations

from fadiff_mapper.inference.language_model import LanguageModel, Layers
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload import Workload, build_workload
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, experts, linear, product


def dense(to: Assembly, name: str, given: Tensor, out: int) -> Tensor:
    """The product with a weight matrix of `out` output channels."""
    return linear(to, name, given, Tensor((out, given.shape[-1])))


def norm(to: Assembly, model: LanguageModel, name: str, given: Tensor) -> Tensor:
    extents = [Tensor(given.shape[-1:])] * (2 if model.norm == "layernorm" else 1)
    return to.node(name, model.norm, [given, *extents], given.shape, (-1,))


def layer_network(model: LanguageModel, layers: Layers, batch: int, tokens: int, cached: int) -> Workload:
    """One decoder layer, for `tokens` new tokens of each sequence behind `cached` tokens in the cache.

    Inputs: `x` [batch * tokens, width], and the cache of earlier tokens; the output has the shape of `x`.
    """
    to, rows, width = Assembly(Where(model.name)), batch * tokens, model.width
    if layers.window is not None:
        cached = max(min(cached, layers.window - tokens), 0)
    length = cached + tokens  # tokens to which the last new token attends
    x = to.input("x", (rows, width))

    def rotary(name: str, given: Tensor) -> Tensor:
        half = (*given.shape[:-1], given.shape[-1] // 2)
        angles = Tensor(given.shape[-2:])
        low, high = (to.node(f"{name}.{part}", "slice", [given], half) for part in ("low", "high"))
        turned = to.node(f"{name}.turned", "concat", [to.node(f"{name}.neg", "neg", [high], half), low], given.shape)
        parts = [to.node(f"{name}.{part}", "mul", [each, angles], given.shape)
                 for part, each in (("cos", given), ("sin", turned))]
        return to.node(name, "add", parts, given.shape)

    def by_heads(name: str, given: Tensor, count: int) -> Tensor:  # [batch, heads, tokens, size]
        apart = to.reshape(f"{name}.apart", given, (batch, tokens, count, given.shape[-1] // count))
        return to.transpose(f"{name}.heads", apart, (0, 2, 1, 3))

    def with_cache(name: str, given: Tensor) -> Tensor:
        if not cached:
            return given
        before = to.input(name, (*given.shape[:-2], cached, given.shape[-1]))
        return to.node(f"{name}.all", "concat", [before, given], (*given.shape[:-2], length, given.shape[-1]))

    def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # [runs, rows, ...] each
        shape = (*q.shape[:-1], length)
        scores = product(to, "attention.scores", q, to.turn("attention.keys", k), shape)
        if model.capped:
            scores = to.node("attention.cap", "tanh", [scores], shape)
        weights = to.node("attention.softmax", "softmax", [scores], shape, (-1,), causal=tokens)
        return product(to, "attention.values", weights, v, (*q.shape[:-1], v.shape[-1]))

    def feed_forward(name: str, given: Tensor, inner: int) -> Tensor:
        up = dense(to, f"{name}.up", given, inner)
        gate = dense(to, f"{name}.gate", given, inner) if model.gated else up
        active = to.node(f"{name}.{model.activation}", model.activation, [gate], up.shape)
        active = to.node(f"{name}.gated", "mul", [active, up], up.shape) if model.gated else active
        return dense(to, f"{name}.down", active, width)

    y, latent = norm(to, model, "attention.norm", x), model.latent
    if latent is None:
        q, k, v = (by_heads(f"attention.{part}", dense(to, f"attention.{part}", y, count * model.size), count)
                   for part, count in (("q", model.heads), ("k", model.shared), ("v", model.shared)))
        if model.head_norms:
            q, k = norm(to, model, "attention.q_norm", q), norm(to, model, "attention.k_norm", k)
        if model.rotary:
            q, k = rotary("attention.q_rotary", q), rotary("attention.k_rotary", k)
        k, v = with_cache("keys", k), with_cache("values", v)
        runs, group = batch * model.shared, model.heads // model.shared  # heads that share keys: rows of a product
        k, v = (to.reshape(f"attention.{part}_runs", each, (runs, length, model.size))
                for part, each in (("k", k), ("v", v)))
        out = attended(to.reshape("attention.q_runs", q, (runs, group * tokens, model.size)), k, v)
        value = model.size
        out = to.reshape("attention.heads", out, (batch, model.heads, tokens, value))
    else:
        heads, value, whole = model.heads, latent.value, latent.plain + latent.turned
        given = y
        if latent.queries:
            given = norm(to, model, "attention.q_norm", dense(to, "attention.q_down", y, latent.queries))
        q = by_heads("attention.q", dense(to, "attention.q", given, heads * whole), heads)
        plain = to.node("attention.q_plain", "slice", [q], (batch, heads, tokens, latent.plain))
        turned = rotary("attention.q_rotary", to.node("attention.q_turned", "slice", [q],
                                                      (batch, heads, tokens, latent.turned)))
        down = dense(to, "attention.kv_down", y, latent.cached + latent.turned)
        words = norm(to, model, "attention.kv_norm", to.node(
            "attention.latent", "slice", [down], (batch, tokens, latent.cached)))
        key = rotary("attention.k_rotary", to.node("attention.key", "slice", [down], (batch, tokens, latent.turned)))
        both = to.node("attention.words", "concat", [words, key], (batch, tokens, latent.cached + latent.turned))
        if not cached:  # keys and values of all heads are computed from the latent vectors
            up = by_heads("attention.kv_up", dense(
                to, "attention.kv_up", to.reshape("attention.rows", words, (rows, latent.cached)),
                heads * (latent.plain + value)), heads)
            runs, alike = batch * heads, to.expand("attention.keys_shared", to.reshape(
                "attention.one_key", key, (batch, 1, tokens, latent.turned)), (batch, heads, tokens, latent.turned))
            k_plain, v = (to.node(f"attention.{part}", "slice", [up], (batch, heads, tokens, size))
                          for part, size in (("k_plain", latent.plain), ("v_plain", value)))
            q, k = (to.reshape(f"attention.{part}_runs", to.node(f"attention.{part}_whole", "concat", [first, second], (
                batch, heads, tokens, whole)), (runs, tokens, whole))
                for part, first, second in (("q", plain, turned), ("k", k_plain, alike)))
            out = attended(q, k, to.reshape("attention.v_runs", v, (runs, tokens, value)))
            out = to.reshape("attention.heads", out, (batch, heads, tokens, value))
        else:  # queries and results are multiplied by the projections instead (the absorbed form)
            def of_heads(name: str, each: Tensor, size: int, into: int) -> Tensor:
                first = to.transpose(f"{name}.by_heads", each, (1, 0, 2, 3))
                flat = to.reshape(f"{name}.flat", first, (heads, rows, size))
                made = product(to, name, flat, Tensor((heads, size, into)), (heads, rows, into))
                back = to.reshape(f"{name}.rows", made, (heads, batch, tokens, into))
                return to.transpose(f"{name}.back", back, (1, 0, 2, 3))
            absorbed = of_heads("attention.k_up", plain, latent.plain, latent.cached)
            q = to.node("attention.q_whole", "concat", [absorbed, turned], (
                batch, heads, tokens, latent.cached + latent.turned))
            every = with_cache("latent", both)
            out = attended(to.reshape("attention.q_runs", q, (batch, heads * tokens, latent.cached + latent.turned)),
                           every, to.node("attention.latents", "slice", [every], (batch, length, latent.cached)))
            out = of_heads("attention.v_up", to.reshape("attention.heads", out, (batch, heads, tokens, latent.cached)),
                           latent.cached, value)
    flat = to.reshape("attention.out_rows", to.transpose("attention.out_heads", out, (0, 2, 1, 3)),
                      (rows, model.heads * value))
    y = dense(to, "attention.out", flat, width)
    x = to.node("attention.sum", "add", [x, norm(to, model, "attention.after", y) if model.sandwich else y], x.shape)
    y = norm(to, model, "mlp.norm", x)
    if layers.experts:
        scores = dense(to, "mlp.router", y, layers.experts)
        scores = to.node("mlp.softmax", "softmax", [scores], scores.shape, (-1,))
        places = to.node("mlp.choice", "sort", [scores], (rows, layers.used))
        picked = rows * layers.used
        mine, shape = to.node("mlp.picked", "gather", [y, places], (picked, width)), (picked, layers.inner)
        up, gate = (experts(to, f"mlp.{part}", mine, (layers.experts, width, layers.inner), shape)
                    for part in ("up", "gate"))
        active = to.node("mlp.gated", "mul", [to.node("mlp.silu", model.activation, [gate], shape), up], shape)
        made = experts(to, "mlp.down", active, (layers.experts, layers.inner, width), (picked, width))
        apart = to.reshape("mlp.shares", made, (rows, layers.used, width))
        weights = to.reshape("mlp.weights", places, (rows, layers.used, 1))
        weighed = to.node("mlp.weighed", "mul", [apart, weights], apart.shape)
        made = to.node("mlp.sum_of_experts", "sum", [weighed], (rows, width), (1,))
        if layers.shared:
            made = to.node("mlp.with_shared", "add", [made, feed_forward("shared", y, layers.shared)], (rows, width))
    else:
        made = feed_forward("mlp", y, layers.inner)
    to.node("mlp.sum", "add", [x, norm(to, model, "mlp.after", made) if model.sandwich else made], x.shape)
    return build_workload(f"{model.name} {layers.name}", to.nodes, ("mlp.sum",))


def ends_network(model: LanguageModel, batch: int, tokens: int) -> Workload:
    """The ends of a model: the embedding of new tokens; norm and head for the last token of each sequence."""
    to, rows = Assembly(Where(model.name)), batch * tokens
    x = to.node("embedding", "gather", [Tensor((model.vocabulary, model.width)), to.input("tokens", (rows,))],
                (rows, model.width))
    if not model.rotary:
        x = to.node("positions", "add", [x, Tensor((tokens, model.width))], x.shape)
    last = norm(to, model, "head.norm", to.input("x", (batch, model.width)))
    logits = dense(to, "head", last, model.vocabulary)
    if model.capped:
        logits = to.node("head.cap", "tanh", [logits], logits.shape)
    return build_workload(f"{model.name} ends", to.nodes, tuple(node for node in (x.node, logits.node) if node))
