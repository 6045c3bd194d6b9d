#!/usr/bin/env python3
"""Checks that the demo model is what its card says: prints every number and fails if one is out of bounds.

    check.py --model models/demo [--train-seeds 1,2] [--stories 80000]

All numbers are of the exported FP8 weights, dequantised to float32.  Stories are sampled from openings and requests
about heroes that no training story has.  A sampled story is "consistent" if it could have been written by
stories.py: one plot from beginning to end, and every name, pronoun, thing and colour the same throughout.
This is more than making sense asks for, and it can be decided.
"""

import argparse
import re
import sys
from pathlib import Path

from export import load_exported   # sets up the path to tools/

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import stories as st
from make_tokenizer import BOS, EOS, TURN_END, chat
from model import WINDOW
from train import documents

FAILED = []


def check(what, value, good):
    print(f"{'ok  ' if good else 'FAIL'} {what}: {value}", flush=True)
    if not good:
        FAILED.append(what)


# --- could stories.py have written it? -------------------------------------------------------

def domains(plot):
    """Blank -> list of {blank: value} that choosing it brings along."""
    helpers, blanks, _ = st.PLOTS[plot]
    sexes = lambda he, him, his: [{he: "she", him: "her", his: "her"}, {he: "he", him: "him", his: "his"}]
    out = {"trait": [{"trait": v} for v in st.TRAITS], "home": [{"home": v} for v in st.HOMES],
           "weather": [{"weather": v} for v in st.WEATHERS], "time": [{"time": v} for v in st.TIMES],
           "hkind": [{"hkind": v} for v in helpers],
           "kind": [{"kind": v} for v in st.HERO_KINDS + ["girl", "boy"] if v != "child"],
           "N": [{"N": n, **s} for names, s in zip((st.HEROES_F, st.HEROES_M), sexes("he", "him", "his")) for n in names],
           "H": [{"H": n, **s} for names, s in zip((st.HELPERS_F, st.HELPERS_M), sexes("hhe", "hhim", "hhis")) for n in names]}
    for key, values in blanks.items():
        keys = key if isinstance(key, tuple) else (key,)
        choices = [dict(zip(keys, v if isinstance(key, tuple) else (v,))) for v in values]
        out.update({k: choices for k in keys})
    # A pronoun before its name chooses among two.
    out.update({k: sexes("he", "him", "his") for k in ("he", "him", "his")})
    out.update({k: sexes("hhe", "hhim", "hhis") for k in ("hhe", "hhis")})
    return out


def matches(template, text, at, bound, choices):
    """Every way in which text[at:] begins with the template: (end, blanks bound by then)."""
    literal, _, rest = template.partition("{")
    if literal:
        if literal.endswith("a~ ") or literal.endswith("A~ "):   # "a" or "an" by what fills the blank
            stem = st.article(literal[:-2])
            for tail in (stem + " ", stem + "n "):
                end = at + len(tail)
                if text.startswith(tail, at) and (text[end:end + 1] in "aeiouAEIOU") == tail.endswith("n "):
                    yield from matches("{" + rest, text, end, bound, choices)
            return
        literal = st.article(literal)
        if not text.startswith(literal, at):
            return
        at += len(literal)
    if not rest:
        yield at, bound
        return
    name, _, rest = rest.partition("}")
    capital = name in ("He", "Block")
    name = name.lower() if capital else name
    show = lambda v: v[0].upper() + v[1:] if capital else v
    options = [bound] if name in bound else [{**bound, **c} for c in choices[name] if all(bound.get(k, v) == v for k, v in c.items())]
    for option in options:
        value = show(fill(option[name], option))
        if text.startswith(value, at):
            yield from matches(rest, text, at + len(value), option, choices)


def fill(value, bound):
    return re.sub(r"\{(\w+)\}", lambda m: bound.get(m[1], m[0]), value)


def plot_of(text):
    """The plot that the story follows from beginning to end, or None."""
    text = text.replace("\n\n", " \n\n ")
    for plot, (_, _, steps) in st.PLOTS.items():
        choices = domains(plot)
        states = [(0, {})]
        for step in [st.OPENINGS, *steps, st.ENDINGS]:
            after = []
            for at, bound in states:
                for way in ([step] if isinstance(step, str) else step):
                    if way == "":
                        after.append((at, bound))
                    else:
                        gap = 1 if at else 0
                        if not gap or text[at:at + 1] == " ":
                            after += matches(way, text, at + gap, bound, choices)
            states = [s for i, s in enumerate(after) if s not in after[:i]]
            if not states:
                break
        if any(at == len(text) for at, _ in states):
            return plot
    return None


# --- the numbers ------------------------------------------------------------------------------

def losses(model, docs):
    """Mean loss per token, and how often each expert of each layer was chosen."""
    loads, probabilities, same = [], [], []
    hooks = [l.router.register_forward_hook(lambda m, a, out: seen.append(out)) for l in model.model.layers]
    total = count = 0
    for d in docs:
        seen = []
        ids = torch.tensor(d.astype(np.int64))[None]
        logits = model(input_ids=ids, use_cache=False).logits[0, :-1]
        total += float(F.cross_entropy(logits, ids[0, 1:], reduction="sum"))
        count += ids.shape[1] - 1
        chosen = torch.stack([F.one_hot(c, p.shape[1]).sum(1) for p, _, c in seen])      # [L,T,E]
        loads.append(chosen.sum(1))
        same.append((chosen[:, 1:] * chosen[:, :-1]).sum(-1).float().mean() / seen[0][2].shape[1])
        probabilities.append(torch.stack([-(p * p.clamp_min(1e-20).log()).sum(-1).mean() for p, _, _ in seen]))
    for h in hooks:
        h.remove()
    load = torch.stack(loads).sum(0).float()
    share = load / load.sum(1, keepdim=True) * load.shape[1]
    return total / count, share, float(torch.stack(same).mean()), torch.stack(probabilities).mean(0)


def sample(model, prompts, seed, most=420):
    """One continuation each, with the sampling defaults of generation_config.json."""
    torch.manual_seed(seed)
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    out = model.generate(input_ids=ids, attention_mask=mask, do_sample=True, temperature=0.8, top_k=40, top_p=0.95,
                         max_new_tokens=most, eos_token_id=[EOS, TURN_END], pad_token_id=0)
    return [row[longest:].tolist() for row in out]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--train-seeds", default="1")
    parser.add_argument("--stories", type=int, default=80000, help="training stories per seed")
    parser.add_argument("--count", type=int, default=75, help="stories to sample in each form")
    parser.add_argument("--held-out", type=int, default=400, help="held-out stories for the loss")
    parser.add_argument("--print", type=int, default=0, help="sampled stories to print")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    tok = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    model = load_exported(args.model)
    model.set_experts_implementation("grouped_mm")   # faster than the eager experts of the golden values
    seeds = [int(s) for s in args.train_seeds.split(",")]

    size = sum(f.stat().st_size for f in args.model.iterdir()) / 1e6
    check("size of the folder (MB), at most 10", f"{size:.2f}", size <= 10)
    c = model.config
    check("layers, experts, experts per token", (c.num_hidden_layers, c.num_experts, c.top_k_experts),
          c.num_hidden_layers >= 6 and c.num_experts >= 32 and c.top_k_experts == 4)
    scalars = [round(float(l.layer_scalar), 3) for l in model.model.layers]
    check("layer_scalar of every layer other than 1", scalars, all(abs(s - 1) > 0.01 for s in scalars))
    routers = [l.router for l in model.model.layers]
    check("deviation of router.scale and per_expert_scale from 1 (least over layers)",
          [round(min(float((t - 1).abs().mean()) for t in ts), 3) for ts in ([r.scale for r in routers], [r.per_expert_scale for r in routers])],
          all(float((t - 1).abs().mean()) > 0.01 for r in routers for t in (r.scale, r.per_expert_scale)))

    seen = documents(tok, args.held_out // 2, seeds[0], held_out=False)   # the first of that seed's training stories
    held = documents(tok, args.held_out, 1001, held_out=True)
    train_loss, _, _, _ = losses(model, seen)
    held_loss, share, same, entropy = losses(model, held)
    check(f"loss on {args.held_out // 2} training stories and on {args.held_out} held-out stories, within 10 %",
          f"{train_loss:.4f}, {held_loss:.4f} ({100 * (held_loss / train_loss - 1):+.1f} %)", held_loss < 1.1 * train_loss)
    check("share of held-out tokens of each layer's rarest and busiest expert (1: even), at least 0.25",
          f"{[round(float(s), 2) for s in share.min(1).values]}, {[round(float(s), 2) for s in share.max(1).values]}",
          float(share.min()) >= 0.25)
    print(f"     consecutive tokens share {same:.2f} of their experts (by chance {c.top_k_experts / c.num_experts:.3f}); "
          f"router entropy {[round(float(e), 2) for e in entropy]} of {np.log(c.num_experts):.2f}")
    lengths = [len(d) for d in held]
    check(f"shortest and mean held-out story in tokens, longer than the window of {WINDOW}",
          f"{min(lengths)}, {np.mean(lengths):.0f}", min(lengths) > WINDOW)

    written = list(st.stories(400, 1001, held_out=True))
    consistent = sum(plot_of(s.text) is not None for s in written)
    check("what stories.py writes is consistent by this check (of 400)", consistent, consistent == len(written))
    training = {hash(s.text) for seed in seeds for s in st.stories(args.stories, seed)}
    words = {w for s in st.stories(20000, seeds[0]) for w in re.findall(r"[A-Za-z']+", s.text)}

    heroes = list(st.stories(2 * args.count, 1002, held_out=True))
    shown = []
    for form, batch in (("openings", heroes[:args.count]), ("requests", heroes[args.count:])):
        begin = (lambda s: s.opening) if form == "openings" else (lambda s: chat(s.request))
        outs = sample(model, [[BOS] + tok.encode(begin(s), add_special_tokens=False).ids for s in batch], seed=1)
        ended, texts = 0, []
        for s, ids in zip(batch, outs):
            end = next((i for i, t in enumerate(ids) if t in (EOS, TURN_END)), None)
            ended += end is not None
            text = tok.decode(ids[:end], skip_special_tokens=False)
            texts.append(s.opening + text if form == "openings" else text)
        plots = [plot_of(t) for t in texts]
        n = len(texts)
        check(f"{n} stories from unseen {form}: end by themselves, at least 98 %", ended, ended >= 0.98 * n)
        odd = [w for t in texts for w in re.findall(r"[A-Za-z']+", t) if w not in words]
        check("    words that no training story has, at most 0.1 % of all", odd[:5], len(odd) <= 0.001 * sum(len(t.split()) for t in texts))
        wrong = [m for t in texts for m in re.findall(r"\b[Aa] [aeiou]\w*|\b[Aa]n [^aeiou]\w*", t)]
        check("    wrong \"a\" or \"an\", at most 1 % of stories", wrong[:5], len(wrong) <= 0.01 * n)
        check("    plots told", len(set(plots) - {None}), len(set(plots) - {None}) >= 15)
        check("    consistent from beginning to end, at least 80 %", sum(p is not None for p in plots), sum(p is not None for p in plots) >= 0.8 * n)
        check("    are a training story word for word", sum(hash(t) in training for t in texts), not any(hash(t) in training for t in texts))
        shown += list(zip(plots, texts))
    for plot, text in shown[:args.print] + [x for x in shown if x[0] is None][:args.print]:
        print(f"\n[{plot or 'NOT CONSISTENT'}]\n{text}")
    print(f"\n{'all checks passed' if not FAILED else f'{len(FAILED)} checks FAILED'}")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
