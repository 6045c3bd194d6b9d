#!/usr/bin/env python3
"""Writes a checkpoint of random weights with the dimensions, names and dtypes of Gemma-4-26B-A4B in FP8
(compressed-tensors, unfused experts), for measuring speed and memory: what it generates is noise.

usage: make_full_size.py --out DIR [--layers 30] [--vocab 262144] [--seed 1]

--layers 12 --vocab 32768 takes 10 GB, of which a generated token reads 1.42 GB; all 30 layers take 27 GB.
Needs nothing but Python.  The same arguments give the same bytes.
"""
import argparse, json, math, os, random, struct

H, DENSE, EXPERT, EXPERTS, TOP_K = 2816, 2112, 704, 128, 8
HEADS, SHARD = 16, 4 << 30
STD = 0.02        # of every matrix
CODE_STD = 32.0   # of the FP8 numbers behind it: well inside 448


def e4m3(code):
    sign, exponent, mantissa = code >> 7, code >> 3 & 15, code & 7
    if exponent == 15 and mantissa == 7:
        return None  # NaN
    value = mantissa / 8 * 2.0 ** -6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return -value if sign else value


def bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


class Pool:
    """Random bytes, made once; tensors are cut from it at random places, so that writing runs at the disk's speed."""

    def __init__(self, chance, bytes_of, n):
        self.chance = chance
        self.data = b"".join(bytes_of() for _ in range(n))

    def cut(self, size):
        while size > 0:
            at = self.chance.randrange(0, len(self.data) // 2, 64)
            part = self.data[at:at + min(size, len(self.data) // 2)]
            yield part
            size -= len(part)


def pools(chance):
    codes = [c for c in range(256) if e4m3(c) is not None]
    near = lambda v: math.exp(-0.5 * (v / CODE_STD) ** 2) * max(abs(v), 2.0 ** -9)  # codes are as dense as 1/|v|
    weights = [near(e4m3(c)) for c in codes]
    fp8 = Pool(chance, lambda: bytes(chance.choices(codes, weights, k=4096)), 1024)
    normal = lambda std: Pool(chance, lambda: b"".join(bf16(chance.gauss(0, std)) for _ in range(64)), 4096)
    return {"fp8": fp8, "matrix": normal(STD), "router": normal(1.5 * H ** -0.5),
            "norm": Pool(chance, lambda: bf16(chance.uniform(0.8, 1.2)), 8192),
            "scale": Pool(chance, lambda: bf16(STD / CODE_STD * chance.uniform(0.9, 1.1)), 8192)}


def tensors(layers, vocab):
    """(name, dtype, shape, pool) in file order."""
    def linear(name, n, k):
        return [(name + ".weight", "F8_E4M3", [n, k], "fp8"), (name + ".weight_scale", "BF16", [n, 1], "scale")]
    yield "embed_tokens.weight", "BF16", [vocab, H], "matrix"
    yield "norm.weight", "BF16", [H], "norm"
    for layer in range(layers):
        full = layer % 6 == 5 or layer == layers - 1
        p, d, kv = f"layers.{layer}.", 512 if full else 256, 2 if full else 8
        for norm in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                     "pre_feedforward_layernorm_2", "post_feedforward_layernorm", "post_feedforward_layernorm_1",
                     "post_feedforward_layernorm_2"):
            yield p + norm + ".weight", "BF16", [H], "norm"
        yield p + "layer_scalar", "BF16", [1], "norm"
        for norm in ("q_norm", "k_norm"):
            yield p + f"self_attn.{norm}.weight", "BF16", [d], "scale"  # small: scores stay moderate
        yield from linear(p + "self_attn.q_proj", HEADS * d, H)
        yield from linear(p + "self_attn.k_proj", kv * d, H)
        if not full:
            yield from linear(p + "self_attn.v_proj", kv * d, H)
        yield from linear(p + "self_attn.o_proj", H, HEADS * d)
        for part, n, k in (("gate", DENSE, H), ("up", DENSE, H), ("down", H, DENSE)):
            yield from linear(p + f"mlp.{part}_proj", n, k)
        yield p + "router.proj.weight", "BF16", [EXPERTS, H], "router"
        yield p + "router.scale", "BF16", [H], "norm"
        yield p + "router.per_expert_scale", "BF16", [EXPERTS], "norm"
        for e in range(EXPERTS):
            for part, n, k in (("gate", EXPERT, H), ("up", EXPERT, H), ("down", H, EXPERT)):
                yield from linear(p + f"experts.{e}.{part}_proj", n, k)


def config(layers, vocab):
    kinds = ["full_attention" if i % 6 == 5 or i == layers - 1 else "sliding_attention" for i in range(layers)]
    rope = {"full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    text = {"model_type": "gemma4_text", "hidden_size": H, "num_hidden_layers": layers, "vocab_size": vocab,
            "num_attention_heads": HEADS, "num_key_value_heads": 8, "num_global_key_value_heads": 2, "head_dim": 256,
            "global_head_dim": 512, "attention_k_eq_v": True, "attention_bias": False, "intermediate_size": DENSE,
            "enable_moe_block": True, "num_experts": EXPERTS, "top_k_experts": TOP_K, "moe_intermediate_size": EXPERT,
            "hidden_activation": "gelu_pytorch_tanh", "final_logit_softcapping": 30.0, "rms_norm_eps": 1e-6,
            "max_position_embeddings": 262144, "sliding_window": 1024, "layer_types": kinds, "rope_parameters": rope,
            "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "use_double_wide_mlp": False,
            "tie_word_embeddings": True, "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0}
    weights = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False}
    group = {"targets": ["Linear"], "weights": weights, "input_activations": None, "output_activations": None}
    return {"model_type": "gemma4", "architectures": ["Gemma4ForConditionalGeneration"], "text_config": text,
            "tie_word_embeddings": True, "eos_token_id": [1, 106],
            "quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized",
                                    "config_groups": {"group_0": group}, "ignore": ["lm_head"],
                                    "kv_cache_scheme": None, "quantization_status": "compressed"}}


def write_shard(path, entries, pool):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, _ in entries:
        size = math.prod(shape) * (1 if dtype == "F8_E4M3" else 2)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, _, _, kind in entries:
            first, end = header[name]["data_offsets"]
            for part in pool[kind].cut(end - first):
                f.write(part)
    print(f"{path}: {at / 1e9:.2f} GB", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", required=True)
    ap.add_argument("--layers", type=int, default=30)
    ap.add_argument("--vocab", type=int, default=262144)
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()
    os.makedirs(args.out, exist_ok=True)
    shards, size = [[]], 0
    for name, dtype, shape, kind in tensors(args.layers, args.vocab):
        n = math.prod(shape) * (1 if dtype == "F8_E4M3" else 2)
        if size + n > SHARD:
            shards.append([])
            size = 0
        shards[-1].append(("model.language_model." + name, dtype, shape, kind))
        size += n
    pool, where = pools(random.Random(args.seed)), {}
    for i, entries in enumerate(shards):
        file = f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        where.update((name, file) for name, _, _, _ in entries)
        write_shard(os.path.join(args.out, file), entries, pool)
    for file, value in (("config.json", config(args.layers, args.vocab)),
                        ("model.safetensors.index.json", {"metadata": {}, "weight_map": where})):
        with open(os.path.join(args.out, file), "w") as f:
            json.dump(value, f, indent=1)


main()
