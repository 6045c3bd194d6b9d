"""The demo model's shape, its first weights, and where its parts are.  Used by train.py, export.py and check.py."""

import math

import torch
import transformers

WINDOW = 64          # shorter than any story
MAX_POSITIONS = 2048


def text_config(vocab_size, eos):
    """text_config as the published checkpoints have it, with the *global* keys."""
    return {
        "attention_bias": False, "attention_dropout": 0.0, "attention_k_eq_v": True, "bos_token_id": 2,
        "dtype": "bfloat16", "enable_moe_block": True, "eos_token_id": eos, "final_logit_softcapping": 30.0,
        "global_head_dim": 64, "head_dim": 32, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 128,
        "hidden_size_per_layer_input": 0, "initializer_range": 0.02, "intermediate_size": 256,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"], "max_position_embeddings": MAX_POSITIONS,
        "model_type": "gemma4_text", "moe_intermediate_size": 32, "num_attention_heads": 4, "num_experts": 32,
        "num_global_key_value_heads": 1, "num_hidden_layers": 6, "num_key_value_heads": 2, "num_kv_shared_layers": 0,
        "pad_token_id": 0, "rms_norm_eps": 1e-06,
        "rope_parameters": {
            "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}},
        "sliding_window": WINDOW, "tie_word_embeddings": True, "top_k_experts": 4, "use_bidirectional_attention": None,
        "use_cache": True, "use_double_wide_mlp": False, "vocab_size": vocab_size, "vocab_size_per_layer_input": vocab_size}


def new_model(text, attention="sdpa", experts="grouped_mm"):
    config = transformers.Gemma4TextConfig(**{k: v for k, v in text.items() if k != "dtype"})
    return transformers.Gemma4ForCausalLM._from_config(
        config, attn_implementation=attention, experts_implementation=experts).float()


@torch.no_grad()
def initialise(model, seed):
    """First weights.  transformers' standard deviation of 0.02 is made for wide models; these are by fan-in."""
    g = torch.Generator().manual_seed(seed)
    hidden = model.config.hidden_size
    for name, p in model.named_parameters():
        draw = lambda std: p.copy_(torch.randn(p.shape, generator=g) * std)
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            p.fill_(p.shape[0] ** -0.25)       # scores are not divided by sqrt(head_dim): start them there
        elif name.endswith(("post_attention_layernorm.weight", "post_feedforward_layernorm.weight")):
            p.fill_(0.5)
        elif name.endswith("per_expert_scale"):
            p.uniform_(0.8, 1.25, generator=g)
        elif p.ndim == 1:
            p.fill_(1.0)
        elif name.endswith("embed_tokens.weight"):
            draw(hidden ** -0.5)
        elif name.endswith("router.proj.weight"):
            draw(1.5)                          # decided from the start; its input is scaled by hidden**-0.5
        else:
            draw(p.shape[-1] ** -0.5)


@torch.no_grad()
def fold_layer_scalars(weights, n_layers):
    """Gives the layers scalars other than 1 without changing the function.

    After layer l the stream is s_0*...*s_l times what it was, so what layer l adds to it must shrink by the
    product of the scalars before it: its two outer post-norms do that.  Inside, every path starts with a norm.
    """
    scale = 1.0
    for l in range(n_layers):
        base = f"layers.{l}."
        for norm in ("post_attention_layernorm", "post_feedforward_layernorm"):
            weights[base + norm + ".weight"] *= scale
        s = 0.55 + 0.4 * math.fmod(0.37 + l * 0.618, 1.0)
        weights[base + "layer_scalar"].fill_(s)
        scale *= s


def round_embedding_scale(model):
    """The embedding scale sqrt(hidden) as a bf16 model has it."""
    base = model.model.language_model if hasattr(model.model, "language_model") else model.model
    base.embed_tokens.embed_scale = torch.tensor(math.sqrt(base.embed_tokens.embedding_dim)).bfloat16().float()
