#!/usr/bin/env python3
"""Trains the demo model on a CPU.

    train.py --tokenizer DIR --out DIR [--cpu-minutes 90] [--minutes 60]

Stories are packed whole into rows of fixed length; tokens of one story do not see those of another, and each
starts at position 0.  A third of them is in chat form (request, answer), the rest is plain text.

The learning rate falls with the processor time used or with the clock, whichever is ahead, so that training
also ends well on a machine that has other things to do.  There, threads that wait for each other would make it
crawl: it takes one thread while others use more than a third of a core.  A checkpoint is written every few
minutes and is continued from if it is there; {"minutes": .., "cpu_minutes": .., "balance": ..} in
DIR/settings.json replaces those options while it runs.
"""

import argparse
import json
import math
import os
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import model as demo
from make_tokenizer import BOS, EOS, chat
from stories import stories

ROW, ROWS = 384, 5   # two stories to a row fill it to 96 %


def encode(tok, story, as_chat):
    if as_chat:
        return [BOS] + tok.encode(chat(story.request, story.text), add_special_tokens=False).ids
    return [BOS] + tok.encode(story.text, add_special_tokens=False).ids + [EOS]


def documents(tok, count, seed, held_out):
    rng = random.Random(seed)
    return [np.array(encode(tok, s, rng.random() < 1 / 3), np.uint16) for s in stories(count, seed, held_out)]


def pack(docs, rng):
    """Endless rows of whole documents, each row a list of documents; best fit from a pool of 64."""
    pool, source = [], iter(())
    while True:
        row, room = [], ROW
        while True:
            while len(pool) < 64:
                d = next(source, None)
                if d is None:
                    order = list(range(len(docs)))
                    rng.shuffle(order)
                    source = (docs[i] for i in order)
                    continue
                pool.append(d)
            fits = [i for i, d in enumerate(pool) if len(d) <= room]
            if not fits:
                break
            i = fits[0] if not row else max(fits, key=lambda i: len(pool[i]))
            d = pool.pop(i)
            row.append(d)
            room -= len(d)
        yield row


def batch(rows):
    """ids, targets (-100: none), positions and the two attention masks (true: visible)."""
    ids = np.zeros((len(rows), ROW), np.int64)
    targets = np.full((len(rows), ROW), -100, np.int64)
    positions = np.tile(np.arange(ROW), (len(rows), 1))
    number = np.tile(1000 + np.arange(ROW), (len(rows), 1))  # padding sees only itself
    for r, row in enumerate(rows):
        at = 0
        for n, d in enumerate(row):
            ids[r, at:at + len(d)] = d
            targets[r, at:at + len(d) - 1] = d[1:]
            positions[r, at:at + len(d)] = np.arange(len(d))
            number[r, at:at + len(d)] = n
            at += len(d)
    distance = np.arange(ROW)[:, None] - np.arange(ROW)[None, :]
    full = (number[:, :, None] == number[:, None, :]) & (distance >= 0)
    masks = {"full_attention": full, "sliding_attention": full & (distance < demo.WINDOW)}
    return (torch.from_numpy(ids), torch.from_numpy(targets), torch.from_numpy(positions),
            {k: torch.from_numpy(m)[:, None] for k, m in masks.items()})


class Trainee(torch.nn.Module):
    """The model with its two losses: next token, and load balance over the experts."""

    def __init__(self, lm):
        super().__init__()
        self.lm = lm
        self.routings = []
        for layer in lm.model.layers:
            layer.router.register_forward_hook(lambda m, a, out: self.routings.append((out[0], out[2])))

    def forward(self, ids, targets, positions, full, sliding):
        self.routings.clear()
        masks = {"full_attention": full, "sliding_attention": sliding}
        logits = self.lm(input_ids=ids, position_ids=positions, attention_mask=masks, use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)
        real = (targets.flatten() >= 0).float()
        balance, loads = 0.0, []
        for probabilities, chosen in self.routings:   # Switch Transformer's loss; 1 when even
            n = probabilities.shape[1]
            load = (F.one_hot(chosen, n).sum(1) * real[:, None]).sum(0) / (real.sum() * chosen.shape[1])
            mean = (probabilities * real[:, None]).sum(0) / real.sum()
            balance = balance + n * (load * mean).sum()
            loads.append(load.detach())
        return loss, balance / len(self.routings), torch.stack(loads)


def groups(lm, decay):
    """Matrices decay, vectors do not; the embedding does not."""
    matrices = [p for n, p in lm.named_parameters() if p.ndim > 1 and "embed" not in n]
    rest = [p for n, p in lm.named_parameters() if p.ndim == 1 or "embed" in n]
    return [{"params": matrices, "weight_decay": decay}, {"params": rest, "weight_decay": 0.0}]


def save(lm, optimiser, path, facts):
    tmp = path.with_suffix(".tmp")
    torch.save({"weights": {k: v.clone() for k, v in lm.model.state_dict().items()}, "optimiser": optimiser.state_dict(),
                "facts": facts}, tmp)
    os.replace(tmp, path)


class Threads:
    """Chooses the number of threads by what the rest of the machine does."""

    def __init__(self):
        self.most, self.last = torch.get_num_threads(), self.ticks()

    @staticmethod
    def ticks():
        """Busy time of all cores, of this process, and the clock, in seconds."""
        try:
            user, nice, system = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:4])
        except OSError:
            user = nice = system = 0
        return (user + nice + system) / os.sysconf("SC_CLK_TCK"), time.process_time(), time.time()

    def choose(self):
        now = self.ticks()
        all_, own, wall = (b - a for a, b in zip(self.last, now))
        self.last = now
        torch.set_num_threads(1 if (all_ - own) / max(wall, 1e-3) > 0.35 else self.most)
        return torch.get_num_threads()


@torch.no_grad()
def evaluate(step, batches):
    results = [step(ids, t, p, m["full_attention"], m["sliding_attention"]) for ids, t, p, m in batches]
    return sum(float(r[0]) for r in results) / len(results), torch.stack([r[2] for r in results]).mean(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--cpu-minutes", type=float, default=90)
    parser.add_argument("--stories", type=int, default=80000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--balance", type=float, default=0.008)
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)

    tok = Tokenizer.from_file(str(args.tokenizer / "tokenizer.json"))
    begun = time.time()
    docs = documents(tok, args.stories, args.seed, held_out=False)
    held = documents(tok, 200, args.seed, held_out=True)
    print(f"{len(docs)} stories, {sum(map(len, docs)) / 1e6:.2f} M tokens, {time.time() - begun:.0f} s", flush=True)
    rng = random.Random(args.seed)
    rows = pack(docs, rng)
    held_rows = pack(held, rng)
    held_batches = [batch([next(held_rows) for _ in range(ROWS)]) for _ in range(8)]

    lm = demo.new_model(demo.text_config(tok.get_vocab_size(), EOS))
    demo.initialise(lm, args.seed)
    lm.train()
    trainee = Trainee(lm)
    torch._inductor.config.cpp.dynamic_threads = True
    step_fn = trainee if args.no_compile else torch.compile(trainee)
    optimiser = torch.optim.AdamW(groups(lm, 0.05), lr=args.lr, betas=(0.9, 0.98), eps=1e-10, fused=True)
    print(f"{sum(p.numel() for p in lm.parameters()) / 1e6:.2f} M parameters", flush=True)

    step, tokens, losses, before = 0, 0, [], {"minutes": 0.0, "cpu_minutes": 0.0}
    checkpoint = args.out / "checkpoint.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint)
        lm.model.load_state_dict(state["weights"])
        before.update({k: state["facts"][k] for k in before if k in state["facts"]})
        step, tokens = state["facts"]["step"], state["facts"]["tokens"]
        if "optimiser" in state:
            optimiser.load_state_dict(state["optimiser"])
        print(f"continues at step {step}", flush=True)

    threads, used = Threads(), 0
    begun = saved = time.time()
    first_step = step
    facts = lambda: {"step": step, "tokens": tokens, "minutes": before["minutes"] + (time.time() - begun) / 60,
                     "cpu_minutes": before["cpu_minutes"] + time.process_time() / 60, "stories": args.stories, "seed": args.seed}
    while True:
        spent = facts()
        progress = max((time.time() - begun) / 60 / args.minutes, spent["cpu_minutes"] / args.cpu_minutes)
        if progress >= 1:
            break
        warm = min(1.0, (step - first_step + 1) / 100)
        rate = args.lr * warm * max(0.02, min(1.0, (1 - progress) / 0.8))   # flat, then down to almost nothing
        for g in optimiser.param_groups:
            g["lr"] = rate
        ids, targets, positions, masks = batch([next(rows) for _ in range(ROWS)])
        loss, balance, loads = step_fn(ids, targets, positions, masks["full_attention"], masks["sliding_attention"])
        (loss + args.balance * balance).backward()
        torch.nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        tokens += int((targets >= 0).sum())
        losses.append(float(loss.detach()))
        step += 1
        if step % 10 == 0:
            used = threads.choose()
        if step % 50 == 0:
            print(f"{spent['minutes']:5.1f} min  cpu {spent['cpu_minutes']:5.1f} min  step {step}  loss {np.mean(losses[-50:]):.4f}  "
                  f"balance {balance.item():.3f}  {tokens / 1e6:.2f} M tokens  progress {progress:.2f}  threads {used}", flush=True)
            if (args.out / "settings.json").exists():
                for k, v in json.loads((args.out / "settings.json").read_text()).items():
                    setattr(args, k, v)
        if step % 500 == 0:
            lm.eval()
            value, loads = evaluate(trainee, held_batches[:4])
            lm.train()
            print(f"      held out {value:.4f}, rarest expert {float(loads.min()) * 32:.2f} of its even share", flush=True)
        if time.time() - saved > 120:
            saved = time.time()
            save(lm, optimiser, checkpoint, facts())
    lm.eval()
    value, loads = evaluate(trainee, held_batches)
    print(f"held out {value:.4f}, rarest expert {float(loads.min()) * 32:.2f}; {json.dumps(facts())}", flush=True)
    save(lm, optimiser, checkpoint, facts())


if __name__ == "__main__":
    main()
