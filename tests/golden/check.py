#!/usr/bin/env python3
"""Compares what the program computes on the golden checkpoints with the values of transformers.

usage: check.py SLUICE GOLDENS [--kernels auto|avx512|avx2|reference] [--math exact|fast] [--only NAME] [--threads N]

GOLDENS holds a folder for each checkpoint, or beside one, with golden.json and .npy files (tests/goldens/README.md).  For
each case, once as a prompt and once as generated tokens: logits of every position, the stream after every layer and,
in exact mode, experts and their weights; then the greedy tokens.  In fast mode the expected experts are imposed, since
one flipped expert moves a tiny random model further than any rounding.  Python's standard library only.
"""
import argparse, array, ast, json, math, os, struct, subprocess, sys, tempfile

# logits: share of the case's range.  hidden: share of the layer's largest magnitude.  weights: absolute.
# With keys and values in f16 (the default) or matmul inputs in bf16 a rounding may send a token to another expert, which
# moves these little random models' logits further than any rounding; so the expected experts are imposed there.
ALLOWED = {"exact": {"logits": 1e-4, "hidden": 3e-4, "weights": 1e-4}, "fast": {"logits": 1e-1, "hidden": 2e-1},
           "f16": {"logits": 1e-2, "hidden": 1e-2}}


def read_npy(path):
    with open(path, "rb") as f:
        magic, n = f.read(8), struct.unpack("<H", f.read(2))[0]
        if magic != b"\x93NUMPY\x01\x00":
            raise ValueError(f"{path}: not an .npy file of version 1.0")
        head = ast.literal_eval(f.read(n).decode("latin-1").strip())
        values = array.array({"<f4": "f", "<i4": "i"}[head["descr"]])
        values.frombytes(f.read())
    if head["fortran_order"] or math.prod(head["shape"]) != len(values):
        raise ValueError(f"{path}: not the {head['shape']} that it promises")
    return head["shape"], values


def worst_difference(got, want):
    """The largest one; NaN where anything is NaN."""
    worst = 0.0
    for a, b in zip(got, want):
        d = abs(a - b)
        if not d <= worst:
            worst = d
            if d != d:
                break
    return worst


class Case:
    def __init__(self, args, folder, model, case, temp):
        self.args, self.folder, self.model, self.case, self.temp = args, folder, model, case, temp
        self.problems = []
        self.mode = "f16" if args.kv == "f16" else args.math

    def call(self, *words):
        cmd = [self.args.sluice, *words, "--kv", self.args.kv, "--math", self.args.math, "--kernels", self.args.kernels]
        if self.args.threads:
            cmd += ["--threads", self.args.threads]
        env = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
        p = subprocess.run(cmd, capture_output=True, timeout=600, env=env)
        if p.returncode:
            self.problems.append(f"sluice {words[0]}: exit {p.returncode}: {p.stderr.decode('utf-8', 'replace')[-300:].strip()}")
        return p.stdout.decode() if p.returncode == 0 else None

    def compare(self, what, name, key, by_layer=False, exact=False, scale=None):
        want_shape, want = read_npy(os.path.join(self.folder, self.case[key]))
        got_shape, got = read_npy(os.path.join(self.temp, name))
        if got_shape != want_shape:
            self.problems.append(f"{what}: shape {got_shape}, expected {want_shape}")
            return
        if exact:
            n = sum(a != b for a, b in zip(got, want))
            if n:
                self.problems.append(f"{what}: {n} of {len(want)} differ")
            return
        parts = want_shape[0] if by_layer else 1
        size = len(want) // parts
        allowed = ALLOWED[self.mode][what.split()[0]]
        for i in range(parts):
            a, b = got[i * size:(i + 1) * size], want[i * size:(i + 1) * size]
            unit = scale or (max(map(abs, b)) if by_layer else max(b) - min(b))
            off = worst_difference(a, b) / unit
            if not off <= allowed:
                self.problems.append(f"{what}{f' of layer {i - 1}' if by_layer else ''}: off by {off:.2e}, allowed {allowed:.0e}")
                return

    def check_role(self, role):
        exact, routed = self.mode == "exact", bool(self.case.get("router_ids"))
        words = ["logits", self.model, "--ids", ",".join(map(str, self.case["ids"])), "--as", role,
                 "--out", os.path.join(self.temp, "logits.npy"), "--hidden", os.path.join(self.temp, "hidden.npy")]
        if routed and exact:
            words += ["--routes", os.path.join(self.temp, "routes")]
        elif routed:
            words += ["--force-routes", os.path.join(self.folder, self.case["router_ids"])]
        if self.call(*words) is None:
            return
        self.compare(f"logits as {role}", "logits.npy", "logits")
        self.compare(f"hidden as {role}", "hidden.npy", "hidden", by_layer=True)
        if routed and exact:
            self.compare(f"experts as {role}", "routes_ids.npy", "router_ids", exact=True)
            self.compare(f"weights as {role}", "routes_weights.npy", "router_weights", scale=1.0)

    def check_greedy(self):
        want = self.case.get("greedy")
        if not want or self.mode != "exact":
            return
        text = self.call("run", self.model, "--ids", ",".join(map(str, self.case["ids"])), "-n", str(len(want)),
                         "--temperature", "0", "--ignore-eos", "--print", "ids", "--quiet")
        if text is not None and [int(t) for t in text.split(",")] != want:
            self.problems.append(f"greedy: {text.strip()}, expected {want}")

    def check(self):
        self.check_role("prompt")
        self.check_role("generated")
        self.check_greedy()
        return self.problems


def kernels_missing(args, folder):
    """The program's sentence if this machine lacks the kernels, though it can run the model with others."""
    def plan(kernels):
        p = subprocess.run([args.sluice, "plan", folder, "--kernels", kernels, "--json"], capture_output=True, timeout=600)
        return p.returncode, p.stderr.decode("utf-8", "replace").strip()
    if args.kernels in ("auto", "reference") or plan("auto")[0] != 0:
        return None
    code, sentence = plan(args.kernels)
    return sentence if code == 3 else None


SKIPPED = 77


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("sluice")
    ap.add_argument("goldens")
    ap.add_argument("--kernels", default="auto")
    ap.add_argument("--math", default="exact", choices=["exact", "fast"])
    ap.add_argument("--kv", default="f32", choices=["f32", "f16"])
    ap.add_argument("--only", default="")
    ap.add_argument("--threads", default="")
    args = ap.parse_args()
    passed = failed = 0
    for name in sorted(os.listdir(args.goldens)):
        folder = os.path.join(args.goldens, name)
        if args.only not in name or not os.path.exists(os.path.join(folder, "golden.json")):
            continue
        with open(os.path.join(folder, "golden.json"), encoding="utf-8") as f:
            spec = json.load(f)
        cases, model = spec["cases"], os.path.normpath(os.path.join(folder, spec.get("model", "")))
        lacking = kernels_missing(args, model)
        if lacking:
            print(f"SKIPPED, {lacking}")
            return SKIPPED
        for i, case in enumerate(cases):
            with tempfile.TemporaryDirectory() as temp:
                problems = Case(args, folder, model, case, temp).check()
            passed, failed = passed + (not problems), failed + bool(problems)
            print(f"{'FAIL' if problems else 'ok  '} {name} case {i} ({len(case['ids'])} tokens)", *problems, sep="\n       ")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


sys.exit(main())
