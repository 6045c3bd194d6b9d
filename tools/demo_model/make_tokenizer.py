#!/usr/bin/env python3
"""Trains the demo model's tokenizer on its stories: a BPE that works like Gemma's.

    make_tokenizer.py --out DIR

As in Gemma, a space becomes U+2581 before anything else, merges run over the whole text between special tokens,
and a character that is not in the vocabulary becomes its bytes.  To keep merges inside words they are learned
with a split at spaces and punctuation, and Gemma's pre-tokenizer (which finds nothing) is put in afterwards.
Runs of line breaks are tokens of their own.  Nothing is put in front of a text: <bos> is up to the caller.
"""

import argparse
import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from stories import stories

VOCAB_SIZE = 2048
SPECIALS = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>",
            "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>",
            '<|"|>', "<|think|>", "<|channel>", "<channel|>", "<|turn>", "<turn|>"]
EOS, BOS, TURN_END, TOOL_RESPONSE = (SPECIALS.index(t) for t in ("<eos>", "<bos>", "<turn|>", "<|tool_response>"))
BYTES = [f"<0x{b:02X}>" for b in range(256)]
NEWLINES = ["\n", "\n\n", "\n\n\n"]
# Characters that no story has, so that other text is not all bytes.
ALPHABET = [chr(c) for c in range(33, 127)]

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{{ '<|turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\\n' + m['content'] | trim + '<turn|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|turn>model\\n' }}{% endif %}")


def chat(request, answer=None):
    """What the chat template makes of one request, with its answer if there is one."""
    text = f"<|turn>user\n{request}<turn|>\n<|turn>model\n"
    return text if answer is None else text + answer + "<turn|>"


def train(texts, vocab_size=VOCAB_SIZE):
    learner = Tokenizer(models.BPE(unk_token="<unk>"))
    learner.normalizer = normalizers.Replace(" ", "\u2581")
    learner.pre_tokenizer = pre_tokenizers.Split(Regex("\u2581?[A-Za-z']+|\u2581*[^A-Za-z'\u2581]|\u2581+"), "isolated")
    learner.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=vocab_size - len(NEWLINES), special_tokens=SPECIALS + BYTES, initial_alphabet=ALPHABET + ["\u2581"],
        min_frequency=2, show_progress=False))
    learned = json.loads(learner.to_str())["model"]
    vocab, merges = dict(learned["vocab"]), [tuple(m) for m in learned["merges"]]
    for t in NEWLINES:
        vocab[t] = len(vocab)
    merges = [("\n", "\n"), ("\n\n", "\n")] + merges
    assert sorted(vocab.values()) == list(range(vocab_size)), len(vocab)

    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tok.normalizer = normalizers.Replace(" ", "\u2581")
    tok.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIALS])
    assert tok.get_vocab_size() == vocab_size
    assert tok.token_to_id("<turn|>") == TURN_END
    return tok


def story_texts(count):
    """Paragraphs to learn from: no line breaks inside."""
    return [part for s in stories(count, seed=1) for t in (s.request, s.text) for part in t.split("\n\n")]


def write(folder, tok):
    tok.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "add_bos_token": True, "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>",
        "mask_token": "<mask>", "clean_up_tokenization_spaces": False, "model_max_length": 2048,
        "tokenizer_class": "GemmaTokenizer", "chat_template": CHAT_TEMPLATE}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--stories", type=int, default=10000)
    args = parser.parse_args()
    tok = train(story_texts(args.stories))
    args.out.mkdir(parents=True, exist_ok=True)
    write(args.out, tok)
    ids = [len(tok.encode(s.text, add_special_tokens=False).ids) for s in stories(1000, seed=2)]
    print(f"{VOCAB_SIZE} tokens, {len(tok.to_str()) / 1e3:.0f} kB; a story has {sum(ids) / len(ids):.0f} tokens "
          f"({min(ids)} to {max(ids)})")


if __name__ == "__main__":
    main()
