"""Reading and writing checkpoints as people have them: encodings, shards, config files.

Weights are float32 tensors under the names of transformers' text model without its prefix
(`layers.0.experts.gate_up_proj`, experts fused).  `encode_*` turns them into what a file stores, `dequantise`
turns a file's tensors back, exactly, into float32.
"""

import json

import torch
from safetensors.torch import load_file, save_file

FP8_MAX = 448.0
FP8_IGNORE = ["lm_head", "re:.*embed.*", "re:.*router", "re:.*vision_tower.*"]


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def encode_plain(weights, prefix, dtype):
    """Every tensor in one dtype, experts fused."""
    return {prefix + n: w.to(dtype) for n, w in weights.items()}


def encode_fp8_matrix(w):
    """w [out, in] -> F8_E4M3 [out, in] and a bf16 scale [out, 1] per row."""
    scale = (w.abs().amax(-1, keepdim=True) / FP8_MAX).clamp_min(1e-12).bfloat16()
    return (w / scale.float()).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn), scale


def encode_fp8(weights, prefix):
    """compressed-tensors "float-quantized": linear layers in fp8 with unfused experts, everything else bf16."""
    out = {}

    def put(name, w):
        out[prefix + name + ".weight"], out[prefix + name + ".weight_scale"] = encode_fp8_matrix(w)

    for n, w in weights.items():
        if n.endswith("experts.gate_up_proj"):
            for e, expert in enumerate(w):
                gate, up = expert.chunk(2)
                put(n.replace("gate_up_proj", f"{e}.gate_proj"), gate)
                put(n.replace("gate_up_proj", f"{e}.up_proj"), up)
        elif n.endswith("experts.down_proj"):
            for e, down in enumerate(w):
                put(n.replace("down_proj", f"{e}.down_proj"), down)
        elif n.endswith("_proj.weight") and (".self_attn." in n or ".mlp." in n):
            put(n.removesuffix(".weight"), w)
        else:
            out[prefix + n] = w.bfloat16()
    return out


def fp8_config():
    """quantization_config as llm-compressor's FP8_DYNAMIC preset writes it."""
    weights = {"actorder": None, "block_structure": None, "dynamic": False, "group_size": None, "num_bits": 8,
               "observer": "memoryless_minmax", "observer_kwargs": {}, "strategy": "channel", "symmetric": True, "type": "float"}
    activations = {**weights, "dynamic": True, "observer": None, "strategy": "token"}
    return {"config_groups": {"group_0": {"format": "float-quantized", "input_activations": activations,
                                          "output_activations": None, "targets": ["Linear"], "weights": weights}},
            "format": "float-quantized", "global_compression_ratio": None, "ignore": FP8_IGNORE, "kv_cache_scheme": None,
            "quant_method": "compressed-tensors", "quantization_status": "compressed", "sparsity_config": {},
            "transform_config": {}, "version": "0.14.0"}


def write_safetensors(folder, tensors, shards=1):
    """One model.safetensors, or shards filled in order by size with their index."""
    tensors = {k: v.contiguous() for k, v in tensors.items()}
    if shards == 1:
        save_file(tensors, str(folder / "model.safetensors"), {"format": "pt"})
        (folder / "model.safetensors").chmod(0o644)
        return
    size = lambda v: v.numel() * v.element_size()
    total, done, number = sum(map(size, tensors.values())), 0, {}
    for n, v in tensors.items():
        number[n] = min(shards - 1, done * shards // total)
        done += size(v)
    files = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    for i, f in enumerate(files):
        save_file({n: v for n, v in tensors.items() if number[n] == i}, str(folder / f), {"format": "pt"})
        (folder / f).chmod(0o644)
    write_json(folder / "model.safetensors.index.json", {
        "metadata": {"total_size": total}, "weight_map": {n: files[i] for n, i in sorted(number.items())}})


def read_safetensors(folder):
    out = {}
    for f in sorted(folder.glob("*.safetensors")):
        out.update(load_file(str(f)))
    return out


def dequantise(stored, prefix):
    """The text model's tensors in float32; fp8 times its scale, experts fused."""
    out, experts = {}, {}
    for name, t in stored.items():
        if not name.startswith(prefix) or name.endswith(".weight_scale"):
            continue
        w = t.float()
        if name + "_scale" in stored:
            w = w * stored[name + "_scale"].float().reshape(-1, 1)
        short = name.removeprefix(prefix)
        base, _, rest = short.partition(".experts.")
        if rest[:1].isdigit():
            e, matrix, _ = rest.split(".")
            experts.setdefault(base + ".experts.", {})[int(e), matrix] = w
        else:
            out[short] = w
    for base, m in experts.items():
        numbers = range(max(e for e, _ in m) + 1)
        out[base + "gate_up_proj"] = torch.stack([torch.cat([m[e, "gate_proj"], m[e, "up_proj"]]) for e in numbers])
        out[base + "down_proj"] = torch.stack([m[e, "down_proj"] for e in numbers])
    return out


def multimodal_config(text, eos, transformers_version, **more):
    """config.json with the text model inside, as the published checkpoints are, and a tiny vision tower's."""
    return {"architectures": ["Gemma4ForConditionalGeneration"], "audio_config": None, "dtype": "bfloat16",
            "eos_token_id": eos, "initializer_range": 0.02, "model_type": "gemma4", "text_config": text,
            "tie_word_embeddings": True, "transformers_version": transformers_version,
            "vision_config": {
                "head_dim": 16, "hidden_size": 32, "intermediate_size": 48, "model_type": "gemma4_vision",
                "num_attention_heads": 2, "num_hidden_layers": 1, "num_key_value_heads": 2, "patch_size": 4,
                "pooling_kernel_size": 3, "position_embedding_size": 8}, **more}


def generation_config(eos, transformers_version, temperature=1.0, top_k=64, top_p=0.95):
    return {"bos_token_id": 2, "do_sample": True, "eos_token_id": eos, "pad_token_id": 0, "temperature": temperature,
            "top_k": top_k, "top_p": top_p, "transformers_version": transformers_version}
