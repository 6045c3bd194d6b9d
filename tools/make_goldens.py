#!/usr/bin/env python3
"""Makes the golden checkpoints of tests/goldens: tiny models with random weights, in the formats people have,
and the values that transformers computes for them in float32.

    make_goldens.py --out tests/goldens [--only moe-bf16,moe-f32]

The order of things, for each model: draw weights; store them as the format does; read the files back and make
them float32 again; let transformers compute on those.  So the format's rounding is in the expected values, and
nothing else is: activations are never rounded.  One constant follows the file, as it does in transformers: the
embedding's scale sqrt(hidden) is rounded to the dtype of the stored embedding.

A golden is only useful if right engines agree on it and wrong ones do not.  Hence, before anything is written:
  - prompts are redrawn until no decision is close (MARGIN): neither between the last chosen expert and the
    first not chosen, nor between the best two tokens of a greedy step;
  - the model must not amplify rounding by more than MAX_GAIN;
  - flattening any one tensor must be visible (VISIBLE).

Needs what tools/demo_model/requirements.txt lists.
"""

import argparse
import json
import math
import os
import shutil
import sys
import zlib
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, str(Path(__file__).resolve().parent / "demo_model"))

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer

import make_tokenizer
from checkpoints import (dequantise, encode_fp8, encode_plain, fp8_config, generation_config, multimodal_config,
                         read_safetensors, write_json, write_safetensors)

VOCAB = 512
GREEDY = 32           # tokens of a greedy continuation
MARGIN = 1e-3         # closest decision: relative for experts' probabilities, absolute for logits
ORDER_MARGIN = 1e-5   # closest pair of weights among the chosen experts, relative
MAX_GAIN = 30.0       # noise out per noise in, see noise_gain
VISIBLE = 1e-2        # least movement of the logits when a tensor is flattened
VERSION = transformers.__version__
EOS = [make_tokenizer.EOS, make_tokenizer.TURN_END]
SOURCE = f"transformers {VERSION}, torch {torch.__version__}, float32, eager attention, eager experts"

TOKENIZER_TEXTS = [
    "", " ", "Once upon a time", " a leading space", "two  spaces and   three", "line\nline\n\nline\n\n\n\nend",
    "The miller opened the gate.", "caf\u00e9 na\u00efve", "\u65e5\u672c and \U0001f30a", "\ttab", "1024 + 2048 = 3072",
    "<bos><|turn>user\nWho opened the gate?<turn|>\n<|turn>model\n", "</s> is text", "<turn|>x<turn|>", "a\u2581b",
    "def gate(x):\n    return x\n"]


# --- running a model and watching it ----------------------------------------------------------

class Probe:
    """Calls a model and keeps what golden.json wants: hidden states and routing."""

    def __init__(self, model):
        self.model = model.eval()
        self.base = model.model
        self.base.embed_tokens.register_forward_hook(lambda m, a, out: self.hidden.append(out[0].clone()))
        for layer in self.base.layers:
            layer.register_forward_hook(
                lambda m, a, out: self.hidden.append((out[0] if isinstance(out, tuple) else out)[0].clone()))
            if hasattr(layer, "router"):
                layer.router.register_forward_hook(lambda m, a, out: self.routed.append(out))
        self.hidden, self.routed = [], []

    @torch.no_grad()
    def __call__(self, ids, **kwargs):
        self.hidden, self.routed = [], []
        return self.model(input_ids=torch.tensor([ids]), **kwargs)

    def logits(self, ids):
        return self(ids, use_cache=False).logits[0]

    def routing(self):
        """[L,T,K] experts by descending final weight, and those weights."""
        ids, weights = [], []
        for _, w, e in self.routed:
            order = w.argsort(dim=-1, descending=True)
            ids.append(e.gather(-1, order))
            weights.append(w.gather(-1, order))
        return torch.stack(ids).int().numpy(), torch.stack(weights).numpy()

    def margins(self):
        """[T] how close each token's closest routing decision is; huge where the order of the chosen is safe
        and there are no experts."""
        out = torch.full((self.hidden[0].shape[0],), 1e9)
        for probabilities, weights, chosen in self.routed:
            k = chosen.shape[1]
            p = probabilities.sort(dim=-1, descending=True).values
            w = weights.sort(dim=-1, descending=True).values
            unsafe = ((w[:, :-1] - w[:, 1:]) / w[:, :-1] <= ORDER_MARGIN).any(-1)
            out = torch.minimum(out, ((p[:, k - 1] - p[:, k]) / p[:, k - 1]).masked_fill(unsafe, 0.0))
        return out


def greedy(probe, ids, count=GREEDY, margin=MARGIN):
    """The continuation by argmax, or None if a decision is close to `margin`.  Found with the cache, checked without."""
    out = probe(ids, use_cache=True)
    rows = [out.logits[0, -1]]
    while len(rows) < count:
        out = probe([int(rows[-1].argmax())], cache=out.cache, use_cache=True)
        rows.append(out.logits[0, -1])
    rows = torch.stack(rows)
    tokens = rows.argmax(-1).tolist()
    whole = probe.logits(ids + tokens[:-1])[len(ids) - 1:]
    top = whole.topk(2, dim=-1).values
    if min(float((top[:, 0] - top[:, 1]).min()), float(probe.margins().min())) <= margin:
        return None
    error = float((whole - rows).abs().max() / (whole.max() - whole.min()))
    assert error < 2e-5, f"with and without the cache differ by {error:.2g} of the range"
    return tokens


def find_prompt(probe, rng, length):
    """Random ids without a close decision, and their continuation (with some variety)."""
    draw = lambda: int(rng.integers(len(make_tokenizer.SPECIALS), VOCAB))
    ids = [draw() if length == 1 else make_tokenizer.BOS] + [draw() for _ in range(length - 1)]
    for attempt in range(3000):
        probe.logits(ids)
        close = (probe.margins() <= MARGIN).nonzero().flatten().tolist()
        if close:
            ids[max(close[0], 0 if length == 1 else 1)] = draw()   # earlier tokens do not see this one
            continue
        tokens = greedy(probe, ids)
        if tokens and len(set(tokens)) >= (8 if attempt < 100 else 3):
            return ids, tokens
        ids[-1] = draw()
    raise RuntimeError("every prompt has a close decision")


def noise_gain(probe, ids):
    """Relative noise of 1e-6 after the embedding and every layer moves the logits by this many 1e-6 of their range."""
    clean = probe.logits(ids)
    g = torch.Generator().manual_seed(1)

    def disturb(module, args, out):
        first = out[0] if isinstance(out, tuple) else out
        first = first * (1 + 1e-6 * torch.randn(first.shape, generator=g))
        return (first, *out[1:]) if isinstance(out, tuple) else first

    hooks = [m.register_forward_hook(disturb) for m in [probe.base.embed_tokens, *probe.base.layers]]
    moved = (probe.logits(ids) - clean).abs().max()
    for h in hooks:
        h.remove()
    return float(moved / (clean.max() - clean.min()) / 1e-6)


def least_visible(probe, ids, neutral_vector):
    """The tensor whose flattening (matrices to 0, vectors to neutral_vector) moves the logits least."""
    clean, worst = (probe.logits(ids), probe.hidden[-1]), (1e9, "")
    # The final norm undoes a scaling of the whole stream: the last layer_scalar shows in the hidden state only.
    last_scalar = f"layers.{len(probe.base.layers) - 1}.layer_scalar"
    for name, t in probe.base.state_dict().items():
        kept = t.clone()
        t.fill_(neutral_vector if t.ndim == 1 else 0.0)
        flat = probe.logits(ids), probe.hidden[-1]
        t.copy_(kept)
        i = int(name == last_scalar)
        worst = min(worst, (float((flat[i] - clean[i]).abs().max()), name))
    return worst


def save_case(probe, folder, number, ids, tokens):
    """Writes the arrays of one case; returns its entry in golden.json."""
    arrays = {"logits": probe.logits(ids).numpy(), "hidden": torch.stack(probe.hidden).numpy()}
    if probe.routed:
        arrays["router_ids"], arrays["router_weights"] = probe.routing()
    case = {"ids": ids, "greedy": tokens}
    for key, a in arrays.items():
        assert np.isfinite(a).all()
        case[key] = f"c{number}_{key}.npy"
        np.save(folder / case[key], a)
    return case


# --- models -----------------------------------------------------------------------------------

def gemma4_text(layers, **over):
    """text_config with the *global* keys.  layers: "SSF" is sliding, sliding, full."""
    config = {
        "attention_bias": False, "attention_dropout": 0.0, "attention_k_eq_v": False, "bos_token_id": 2,
        "dtype": "bfloat16", "enable_moe_block": False, "eos_token_id": 1, "final_logit_softcapping": 30.0,
        "global_head_dim": 32, "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 96,
        "hidden_size_per_layer_input": 0, "initializer_range": 0.02, "intermediate_size": 72,
        "layer_types": [{"S": "sliding_attention", "F": "full_attention"}[c] for c in layers],
        "max_position_embeddings": 131072, "model_type": "gemma4_text", "moe_intermediate_size": None,
        "num_attention_heads": 4, "num_experts": None, "num_global_key_value_heads": None,
        "num_hidden_layers": len(layers), "num_key_value_heads": 2, "num_kv_shared_layers": 0, "pad_token_id": 0,
        "rms_norm_eps": 1e-06,
        "rope_parameters": {
            "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}},
        "sliding_window": 8, "tie_word_embeddings": True, "top_k_experts": None, "use_bidirectional_attention": None,
        "use_cache": True, "use_double_wide_mlp": False, "vocab_size": VOCAB, "vocab_size_per_layer_input": VOCAB}
    assert not set(over) - set(config)
    return {**config, **over}


def moe_text(layers, experts=16, **over):
    return gemma4_text(layers, **{**dict(enable_moe_block=True, num_experts=experts, top_k_experts=4, moe_intermediate_size=24,
                                         attention_k_eq_v=True, num_global_key_value_heads=1), **over})


def reference(cls, config):
    return cls._from_config(config, attn_implementation="eager", experts_implementation="eager").float().eval()


def gemma4(text):
    return reference(transformers.Gemma4ForCausalLM,
                     transformers.Gemma4TextConfig(**{k: v for k, v in text.items() if k != "dtype"}))


def draw_weights(model, g, plain_norms=True, post_norms=(0.5, 1.5), embedding=2.5):
    """Random weights by name; every norm and scale well away from 1 and from 0.

    post_norms: what a layer adds to the stream.  Much makes the model chaotic, little lets it repeat its input.
    """
    uniform = lambda s, low, high: torch.rand(s, generator=g) * (high - low) + low
    hidden = model.config.hidden_size
    out = {}
    for name, t in model.model.state_dict().items():
        s = tuple(t.shape)
        normal = lambda std: torch.randn(s, generator=g) * std
        if name.endswith("layer_scalar"):
            w = uniform(s, 0.4, 0.95)
        elif "post_" in name and plain_norms:
            w = uniform(s, *post_norms)
        elif "q_norm" in name or "k_norm" in name:   # where scores have no 1/sqrt(d), keep them soft
            w = uniform(s, 0.4, 0.8) if plain_norms else uniform(s, -0.5, 0.3)
        elif len(s) == 1:
            w = uniform(s, 0.5, 1.5) if plain_norms else uniform(s, 0.2, 1.5)
        elif "embed_tokens" in name:
            w = normal(0.3 if "per_layer" in name else embedding / math.sqrt(hidden))
        elif name.endswith("router.proj.weight"):
            w = normal(1.2)
        else:
            w = normal(1.2 / math.sqrt(s[-1]))
        out[name] = w
    return out


def plant_fp8_values(stored, g):
    """Random weights hold few of the values that decoders get wrong: subnormals, -0 and the ends of the range."""
    for t in stored.values():
        if t.dtype == torch.float8_e4m3fn:
            raw = t.view(torch.uint8).view(-1)
            where = torch.randperm(raw.numel(), generator=g)[:max(12, raw.numel() // 200)]
            codes = torch.randint(0, 8, where.shape, generator=g) + 0x80 * torch.randint(0, 2, where.shape, generator=g)
            raw[where] = codes.to(torch.uint8)
            raw[where[0]], raw[where[1]], raw[where[2]] = 0x7E, 0xFE, 0x80   # 448, -448, -0


def surplus_kv(model, prefix, g):
    """The projections that real files have on layers which reuse other layers' keys and values; nobody reads them."""
    c, out = model.config, {}
    for l in range(c.num_hidden_layers - c.num_kv_shared_layers, c.num_hidden_layers):
        layer, base = c.per_layer_config[l], f"{prefix}layers.{l}.self_attn."
        rows = layer.num_key_value_heads * layer.head_dim
        for n in ("k_proj", "v_proj"):
            out[base + n + ".weight"] = torch.randn(rows, c.hidden_size, generator=g).bfloat16()
        out[base + "k_norm.weight"] = torch.rand(layer.head_dim, generator=g).bfloat16()
    return out


def vision_tensors(hidden, g):
    shapes = {"vision_tower.patch_embedder.input_proj.weight": (32, 48),
              "vision_tower.patch_embedder.position_embedding_table": (2, 8, 32),
              "vision_tower.encoder.layers.0.self_attn.q_proj.linear.weight": (32, 32),
              "embed_vision.embedding_projection.weight": (hidden, 32)}
    return {"model." + n: torch.randn(s, generator=g).bfloat16() for n, s in shapes.items()}


def round_embedding_scales(base, dtype):
    """sqrt(width) of the embedding and of the per-layer embedding, as a model of that dtype has them."""
    c = base.config
    for name, width in (("embed_tokens", c.hidden_size), ("embed_tokens_per_layer", getattr(c, "hidden_size_per_layer_input", 0))):
        if width:
            getattr(base, name).embed_scale = torch.tensor(math.sqrt(width)).to(dtype).float()


def load(model, weights, dtype):
    """Puts float32 weights into the reference model; dtype: what the file stores the embedding in."""
    model.model.load_state_dict(weights)
    model.tie_weights()
    round_embedding_scales(model.model, dtype)


def check_folder_loads(folder, model, dtype):
    """transformers, given the folder alone, computes the same logits, and its tokenizer cuts text the same way."""
    config = json.loads((folder / "config.json").read_text())
    multimodal = "text_config" in config
    cls = transformers.Gemma4ForConditionalGeneration if multimodal else transformers.AutoModelForCausalLM
    real, info = cls.from_pretrained(str(folder), dtype=torch.float32, attn_implementation="eager",
                                     experts_implementation="eager", output_loading_info=True)
    missing = [k for k in info["missing_keys"] if "vision" not in k]
    assert not missing and not info["unexpected_keys"] and not info["mismatched_keys"], info
    round_embedding_scales(real.model.language_model if multimodal else real.model, dtype)
    ids = torch.tensor([list(range(20, 50))])
    with torch.no_grad():
        error = float((real.eval()(input_ids=ids).logits - model(input_ids=ids).logits).abs().max())
    assert error < 1e-5, error
    auto, own = (transformers.AutoTokenizer.from_pretrained(str(folder)), Tokenizer.from_file(str(folder / "tokenizer.json")))
    for text in TOKENIZER_TEXTS:
        a, b = auto.encode(text, add_special_tokens=False), own.encode(text, add_special_tokens=False).ids
        assert a == b, (text, a, b)


def golden(root, name, model, stored, config, notes, *, prefix, dtype=torch.bfloat16, lengths=(5, 24, 1), shards=1,
           neutral_vector=1.0, extra=None):
    """Writes the checkpoint, reads it back, finds prompts, checks and writes the expected values."""
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_safetensors(folder, stored, shards)
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", generation_config(EOS + [make_tokenizer.TOOL_RESPONSE], VERSION))
    make_tokenizer.write(folder, TOKENIZER)

    weights = dequantise(read_safetensors(folder), prefix)
    used = set(model.model.state_dict())
    load(model, {n: w for n, w in weights.items() if n in used}, dtype)
    if "quantization_config" not in config:   # transformers would need another package and quantise activations
        check_folder_loads(folder, model, dtype)

    probe, rng = Probe(model), np.random.default_rng(zlib.crc32(name.encode()))
    prompts = [find_prompt(probe, rng, n) for n in lengths]
    cases = [save_case(probe, folder, i, *p) for i, p in enumerate(prompts)]
    longest = max((p[0] for p in prompts), key=len)
    gain = noise_gain(probe, longest)
    assert gain < MAX_GAIN, gain
    least, which = least_visible(probe, longest, neutral_vector)
    assert least > VISIBLE, (least, which)
    write_json(folder / "golden.json", {
        "source": SOURCE, "cases": cases, **(extra or {}),
        "notes": f"{notes} Noise gain {gain:.0f}. Least movement of the logits when a tensor is flattened: {least:.2g} ({which})."})
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{name}: {size / 1e6:.2f} MB, noise gain {gain:.1f}, least visible {least:.3g} {which}, "
          f"different greedy tokens {[len(set(p[1])) for p in prompts]}", flush=True)


# --- the set ----------------------------------------------------------------------------------

def seeded(name):
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def moe_bf16(root, name):
    g, text = seeded(name), moe_text("SSSSSF")
    model, prefix = gemma4(text), "model.language_model."
    stored = {**encode_plain(draw_weights(model, g), prefix, torch.bfloat16), **vision_tensors(text["hidden_size"], g)}
    cases = []
    for t in TOKENIZER_TEXTS:
        ids = TOKENIZER.encode(t, add_special_tokens=False).ids
        cases.append({"text": t, "ids": ids, "decoded": TOKENIZER.decode(ids, skip_special_tokens=False)})
    golden(root, name, model, stored, multimodal_config(text, EOS, VERSION), prefix=prefix, extra={"tokenizer_cases": cases},
           notes="Gemma 4 MoE in bf16: fused experts, keys as values on the full layer, four vision tensors to skip.")


def moe_fp8(root, name):
    g, text = seeded(name), moe_text("SSSSSF", hidden_size=128, intermediate_size=96, moe_intermediate_size=32)
    model, prefix = gemma4(text), "model.language_model."
    stored = encode_fp8(draw_weights(model, g), prefix)
    plant_fp8_values(stored, g)
    golden(root, name, model, stored, multimodal_config(text, EOS, VERSION, quantization_config=fp8_config()),
           prefix=prefix, shards=3, lengths=(5, 40, 1),
           notes="Gemma 4 MoE as compressed-tensors FP8: unfused experts, bf16 scale per row, three shards.")


def moe_f16(root, name):
    """Saved by transformers itself: its config.json has per_layer_config and none of the *global* keys."""
    g = seeded(name)
    text = moe_text("SSSSSFSSSSSF", experts=8, hidden_size=64, intermediate_size=48, moe_intermediate_size=16, dtype="float16")
    model, prefix = gemma4(text), "model."
    model.config.dtype = torch.float16
    model.config.architectures = ["Gemma4ForCausalLM"]
    config = json.loads(model.config.to_json_string(use_diff=False))
    config.pop("_attn_implementation", None), config.pop("_experts_implementation", None)
    assert "05" in config["per_layer_config"] and "global_head_dim" not in config
    golden(root, name, model, encode_plain(draw_weights(model, g, post_norms=(0.4, 1.2)), prefix, torch.float16), config, prefix=prefix,
           dtype=torch.float16, notes="Gemma 4 MoE in f16, text-only names, 12 layers, per_layer_config in config.json.")


def moe_f32(root, name):
    g, text = seeded(name), moe_text("SSSSSF", experts=8, hidden_size=48, intermediate_size=40, moe_intermediate_size=16, dtype="float32")
    model, prefix = gemma4(text), "model.language_model."
    config = {**multimodal_config(text, EOS, VERSION), "dtype": "float32"}
    weights = draw_weights(model, g, post_norms=(0.4, 1.2))
    golden(root, name, model, encode_plain(weights, prefix, torch.float32), config, prefix=prefix,
           dtype=torch.float32, notes="Gemma 4 MoE in f32: the embedding's scale is not rounded.")


def dense_ple(root, name):
    g = seeded(name)
    text = gemma4_text("SSFSSFSSF", hidden_size=64, intermediate_size=80, num_key_value_heads=1, hidden_size_per_layer_input=16,
                       num_kv_shared_layers=3, use_double_wide_mlp=True)
    model, prefix = gemma4(text), "model."
    weights = draw_weights(model, g, post_norms=(0.3, 0.9))
    stored = {**encode_plain(weights, prefix, torch.bfloat16), **surplus_kv(model, prefix, g)}
    config = {"architectures": ["Gemma4ForCausalLM"], **text, "eos_token_id": EOS, "transformers_version": VERSION}
    golden(root, name, model, stored, config, prefix=prefix,
           notes="Dense Gemma 4 like E2B: per-layer embeddings; the last 3 layers reuse keys and values (their own are in "
                 "the file, unused) and have an MLP twice as wide.")


def gemma3_dense(root, name):
    g = seeded(name)
    text = {"attention_bias": False, "attention_dropout": 0.0, "attn_logit_softcapping": None, "bos_token_id": 2,
            "eos_token_id": EOS, "final_logit_softcapping": None, "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh",
            "hidden_size": 80, "initializer_range": 0.02, "intermediate_size": 96, "max_position_embeddings": 32768,
            "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 7, "num_key_value_heads": 2,
            "pad_token_id": 0, "query_pre_attn_scalar": 20, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000.0,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "rope_theta": 1000000.0, "sliding_window": 8,
            "sliding_window_pattern": 6, "tie_word_embeddings": True, "use_cache": True, "vocab_size": VOCAB}
    model = reference(transformers.Gemma3ForCausalLM, transformers.Gemma3TextConfig(**text))
    assert model.config.rope_parameters["full_attention"]["factor"] == 8.0
    config = {"architectures": ["Gemma3ForCausalLM"], **text, "dtype": "bfloat16", "transformers_version": "4.50.0"}
    golden(root, name, model, encode_plain(draw_weights(model, g, plain_norms=False, embedding=1.2), "model.", torch.bfloat16), config,
           prefix="model.", neutral_vector=0.0,
           notes="Dense Gemma 3 with the older config keys: norms times 1 + w, linear rope scaling on the full layer, "
                 "query_pre_attn_scalar other than the head size, no softcap.")


SET = {"moe-bf16": moe_bf16, "moe-fp8": moe_fp8, "moe-f16": moe_f16, "moe-f32": moe_f32, "dense-ple": dense_ple,
       "gemma3-dense": gemma3_dense}
TOKENIZER = None


def main():
    global TOKENIZER
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--only", help="names, separated by commas")
    args = parser.parse_args()
    torch.set_num_threads(1)   # sums in one order: the same files every time
    torch.use_deterministic_algorithms(True)
    torch.set_grad_enabled(False)
    TOKENIZER = make_tokenizer.train(make_tokenizer.story_texts(2000), VOCAB)
    for name in args.only.split(",") if args.only else SET:
        SET[name](args.out, name)


if __name__ == "__main__":
    main()
