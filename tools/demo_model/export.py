#!/usr/bin/env python3
"""Writes the trained demo model as a checkpoint, and its golden values.

    export.py --checkpoint DIR/checkpoint.pt --tokenizer DIR --out models/demo --goldens tests/goldens/demo

The checkpoint is compressed-tensors FP8 with one tensor per expert and matrix, as the 26B-A4B's FP8 files are:
linear layers F8_E4M3 with a bf16 scale per output row, everything else bf16.
"""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from tokenizers import Tokenizer

import model as demo
from checkpoints import (dequantise, encode_fp8, fp8_config, generation_config, multimodal_config, read_safetensors,
                         write_json, write_safetensors)
from make_goldens import MARGIN, SOURCE, VERSION, Probe, greedy, noise_gain, save_case
from make_tokenizer import BOS, EOS, TOOL_RESPONSE, TURN_END, chat
from stories import stories

PREFIX = "model.language_model."
TOKENIZER_TEXTS = [
    "", " ", "  ", "   ", "a", " a", "a ", "Once upon a time", "Once upon a time there was a fox named Pip.",
    "  two leading spaces", "two trailing spaces  ", "one  two   three    four", " \n ", "\n", "\n\n", "\n\n\n", "\n\n\n\n",
    "\n\n\n\n\n\n\n", "one\ntwo\n\nthree\n\n\nfour\n\n\n\n\nfive", "\tone\ttab", "\r\n", "windows\r\nline", "The sluice gate.",
    "\"Who is there?\" she asked.", "the miller's wife", "don't, won't, can't", "ALL CAPITALS", "camelCaseWord", "snake_case_word",
    "3.14159 and 2,718", "1024 + 2048 = 3072", "int main(void) { return 0; }", "def f(x):\n    return x ** 2\n",
    "{\"name\": \"Pip\", \"age\": 3}", "https://example.org/a?b=c&d=e#f", "user@example.org", "~!@#$%^&*()_+`-=[]\\{}|;':\",./<>?",
    "caf\u00e9", "cafe\u0301", "na\u00efve \u00fcber stra\u00dfe", "\u0394\u03b9\u03b1 \u041c\u0435\u043b\u044c\u043d\u0438\u0446\u0430",
    "\u65e5\u672c\u8a9e\u306e\u7269\u8a9e", "\u6c34\u95f8", "\uc774\uc57c\uae30", "\u05e1\u05d9\u05e4\u05d5\u05e8", "\u0642\u0635\u0629",
    "\U0001f98a", "\U0001f98a\U0001f989 friends", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1f3\U0001f1f1", "a\u2581b",
    "\u2581\u2581", "\u00a0no-break\u00a0space", "\u200bzero width", "\ufeffbyte order mark", "\x00null", "\x7f", "\x1b[0m",
    "<0x41>", "<0xE2><0x96><0x81>", "<unk>", "</s>", "<s>", "<bos", "<|turn>", "<turn|>", "<bos>Once upon a time<eos>",
    "<|turn>user\nTell me a story.<turn|>\n<|turn>model\n", "x<turn|>y <eos> z", " <bos> ", "<pad><pad>", "<mask>", "<|\"|>",
    "<|tool_call>call:f{}<tool_call|>", "<|turn><|turn>", "zzzzqqqqxxxx", "Otto " * 12, "!" * 20, "-" * 33,
]


def tokenizer_cases(tok):
    """What special tokens in a text are: themselves, or, with parse_special false, letters like any others."""
    plain = json.loads(tok.to_str())
    plain["added_tokens"] = []
    plain = Tokenizer.from_str(json.dumps(plain))
    for text in TOKENIZER_TEXTS:
        ids = tok.encode(text, add_special_tokens=False).ids
        yield {"text": text, "parse_special": True, "ids": ids, "decoded": tok.decode(ids, skip_special_tokens=False)}
        other = plain.encode(text, add_special_tokens=False).ids
        if other != ids:
            yield {"text": text, "parse_special": False, "ids": other, "decoded": tok.decode(other, skip_special_tokens=False)}


def export(checkpoint, tokenizer, out):
    tok = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    weights = torch.load(checkpoint)["weights"]
    text = demo.text_config(tok.get_vocab_size(), EOS)
    demo.fold_layer_scalars(weights, text["num_hidden_layers"])
    out.mkdir(parents=True, exist_ok=True)
    write_safetensors(out, encode_fp8(weights, PREFIX))
    write_json(out / "config.json", multimodal_config(text, [EOS, TURN_END], VERSION, quantization_config=fp8_config()))
    write_json(out / "generation_config.json",
               generation_config([EOS, TURN_END, TOOL_RESPONSE], VERSION, temperature=0.8, top_k=40, top_p=0.95))
    for f in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(tokenizer / f, out / f)


def load_exported(folder):
    """transformers' model on the exported weights, dequantised to float32."""
    text = json.loads((folder / "config.json").read_text())["text_config"]
    model = demo.new_model(text, attention="eager", experts="eager").eval()
    model.model.load_state_dict(dequantise(read_safetensors(folder), PREFIX))
    model.tie_weights()
    demo.round_embedding_scale(model)
    return model


def prompts(tok):
    """Kinds of prompts, each a source of candidates: an opening, a request, most of a story, one token."""
    encode = lambda t: [BOS] + tok.encode(t, add_special_tokens=False).ids
    held = lambda seed: stories(400, seed, held_out=True)
    return {"opening": (encode(s.opening) for s in held(11)),
            "request": (encode(chat(s.request)) for s in held(12)),
            "beyond the window": (encode(s.text)[:150] for s in held(13)),
            "one token": (encode(w)[1:2] for w in (" the", " river", " a", " story", " Pip", " One", " mill", " and", " was", " he"))}


def write_goldens(model, tok, folder, checkpoint_folder):
    folder.mkdir(parents=True, exist_ok=True)
    probe, cases, kinds = Probe(model), [], []
    for margin in (MARGIN, MARGIN / 5):   # all requests begin with the same tokens: what is close there stays close
        for kind, candidates in prompts(tok).items():
            if any(k.startswith(kind) for k in kinds):
                continue
            for ids in candidates:
                probe.logits(ids)
                if float(probe.margins().min()) > margin and (tokens := greedy(probe, ids, margin=margin)):
                    cases.append(save_case(probe, folder, len(cases), ids, tokens))
                    kinds.append(f"{kind} ({len(ids)} tokens, closest decision above {margin:.0e})")
                    break
    gain = noise_gain(probe, max((c["ids"] for c in cases), key=len))
    write_json(folder / "golden.json", {
        "source": SOURCE, "model": os.path.relpath(checkpoint_folder, folder), "cases": cases,
        "notes": f"The trained demo model on its FP8 weights, dequantised: {', '.join(kinds)}. Noise gain {gain:.0f}."})
    with open(folder / "tokenizer_cases.jsonl", "w", encoding="utf-8") as f:
        for case in tokenizer_cases(tok):
            f.write(json.dumps(case) + "\n")
    print(f"{len(cases)} golden cases: {', '.join(kinds)}; noise gain {gain:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", required=True, type=Path)
    parser.add_argument("--tokenizer", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--goldens", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    export(args.checkpoint, args.tokenizer, args.out)
    print(f"{sum(f.stat().st_size for f in args.out.iterdir()) / 1e6:.2f} MB in {args.out}")
    if args.goldens:
        write_goldens(load_exported(args.out), Tokenizer.from_file(str(args.out / "tokenizer.json")), args.goldens, args.out)


if __name__ == "__main__":
    main()
