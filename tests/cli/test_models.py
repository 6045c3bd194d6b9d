#!/usr/bin/env python3
"""The real program on small checkpoints.   usage: test_models.py SLUICE SOURCE_FOLDER EXAMPLE_PROGRAM"""
import json, os, shutil, signal, struct, subprocess, unittest
from support import ARGS, PROGRAM, Case, clean_environment, main, read_npy, run

SOURCE, EXAMPLE = os.path.abspath(ARGS[0]), os.path.abspath(ARGS[1])
GOLDENS = os.path.join(SOURCE, "tests", "goldens")
DEMO = os.path.join(SOURCE, "models", "demo")
with open(PROGRAM, "rb") as f:
    program = f.read()
SANITIZED = b"__asan_init" in program or b"__tsan_init" in program
MODELS = sorted(d for d in os.listdir(GOLDENS) if os.path.exists(os.path.join(GOLDENS, d, "config.json")))
IDS = ",".join(str(3 + 7 * i % 400) for i in range(40))


def golden(name):
    return os.path.join(GOLDENS, name)


class Reports(Case):
    def test_inspect_names_every_tensor_and_what_is_skipped(self):
        for name in MODELS:
            r = json.loads(self.expect(run("inspect", golden(name), "--json"), 0).out)
            for key in ("config", "tensors", "skipped", "totals"):
                self.assertIn(key, r, name)
            for t in r["tensors"]:
                self.assertLessEqual({"name", "dtype", "shape", "file", "role"}, set(t), name)
            self.expect(run("inspect", golden(name)), 0)
        self.assertTrue(json.loads(run("inspect", golden("moe-bf16"), "--json").out)["skipped"])

    def test_plan_names_a_kernel_for_each_operation_of_each_layer(self):
        for name in MODELS:
            r = json.loads(self.expect(run("plan", golden(name), "--json"), 0).out)
            self.assertTrue(r["layers"])
            for layer in r["layers"]:
                for op in layer["ops"]:
                    self.assertTrue(op["prompt"] and op["generated"], (name, op))
            self.assertGreater(r["bytes"]["total"], 0)
            self.assertGreater(r["per_token"]["bytes"], 0)
            self.assertIn("layer", self.expect(run("plan", golden(name)), 0).out.decode())

    def test_plan_says_the_kernels_that_were_asked_for(self):
        r = json.loads(run("plan", golden("moe-bf16"), "--kernels", "reference", "--json").out)
        for layer in r["layers"]:
            for op in layer["ops"]:
                self.assertIn("reference", op["prompt"] + op["generated"])

    def test_more_context_takes_more_memory(self):
        of = lambda ctx: json.loads(run("plan", golden("moe-bf16"), "--json", "--ctx", ctx).out)["bytes"]["kv"]
        self.assertGreater(of("100"), of("10"))

    def test_ops_has_a_kernel_or_a_reason_in_every_cell(self):
        cells = json.loads(self.expect(run("ops", "--json"), 0).out)["cells"]
        self.assertGreater(len(cells), 15)
        for c in cells:
            self.assertLessEqual({"op", "backend", "dtype", "kernel"}, set(c))
            if c["kernel"] is None:
                self.assertIn(c["reason"], ("not_written", "not_compiled", "not_on_device", "out_of_range"))
                self.assertTrue(c["detail"])
        self.assertLessEqual({"matmul_bt", "dequant_rows", "gather_rows", "scatter_add_rows", "fill_zero",
                              "dual_rms_norm_add", "expert_ffn"}, {c["op"] for c in cells})

    def test_bench_measures_speed_and_limits(self):
        r = json.loads(self.expect(run("bench", golden("moe-fp8"), "-p", "16", "-n", "8", "--json"), 0).out)
        for key in ("prompt_tps", "decode_tps", "ttft_s", "peak_bytes", "decode_share_of_read_bandwidth"):
            self.assertGreater(r[key], 0, key)
        self.assertTrue(r["arms"])


class Text(Case):
    def test_the_tokenizer_cuts_as_the_golden_says(self):
        with open(os.path.join(golden("moe-bf16"), "golden.json"), encoding="utf-8") as f:
            cases = json.load(f)["tokenizer_cases"]
        for c in cases:
            if not c["ids"]:
                continue
            r = run("tokenize", golden("moe-bf16"), "--stdin", "--special", "--no-bos", stdin=c["text"].encode())
            self.assertEqual(r.out.decode().strip(), ",".join(map(str, c["ids"])), c)

    def test_bos_is_put_in_front_once(self):
        ids = lambda *args: run("tokenize", golden("moe-bf16"), *args).out.decode().strip().split(",")
        plain = ids("water", "--no-bos")
        self.assertEqual(ids("water"), ["2"] + plain)
        self.assertEqual(ids("<bos>water", "--special"), ["2"] + plain)

    def test_text_comes_back(self):
        text = "Water, wasser, вода, 水 \U0001F30A"
        ids = run("tokenize", golden("moe-bf16"), text, "--no-bos").out.decode().strip()
        self.assertEqual(run("tokenize", golden("moe-bf16"), "--decode", ids).out.decode(), text)

    def test_ids_that_are_no_tokens_are_refused(self):
        self.expect(run("tokenize", golden("moe-bf16"), "--decode", "5,99999999"), 3, "99999999")

    def test_what_is_printed_is_whole_characters(self):
        r = run("run", golden("moe-bf16"), "-p", "a", "-n", "200", "--temperature", "3", "--ignore-eos", "-q")
        self.expect(r, 0).out.decode("utf-8")  # raises on a cut character

    def test_a_seed_gives_the_same_text_again_and_another_seed_another(self):
        say = lambda seed: run("run", golden("moe-bf16"), "-p", "a", "-n", "30", "--temperature", "1", "--ignore-eos",
                               "--seed", seed, "--print", "ids", "-q").out
        self.assertEqual(say("5"), say("5"))
        self.assertNotEqual(say("5"), say("6"))

    def test_the_example_says_what_the_program_says(self):
        ask = ["run", golden("moe-bf16"), "-p", "water", "-n", "20", "-q"]
        p = subprocess.run([EXAMPLE, golden("moe-bf16"), "water", "20"], capture_output=True, env=clean_environment())
        self.assertEqual((p.returncode, p.stdout), (0, run(*ask).out), p.stderr)

    def test_the_example_tells_a_failure(self):
        p = subprocess.run([EXAMPLE, self.path("none"), "a"], capture_output=True, env=clean_environment())
        self.assertEqual(p.returncode, 1)
        self.assertIn(b"none", p.stderr)


class Promises(Case):
    def logits(self, name, *args):
        out = self.path("l.npy")
        self.expect(run("logits", golden(name), "--ids", IDS, "--out", out, *args), 0)
        with open(out, "rb") as f:
            return f.read()

    def test_threads_and_chunks_never_change_the_logits(self):
        for name in MODELS:
            for math in ("exact", "fast"):
                first = self.logits(name, "--math", math, "--threads", "1")
                for other in (["--threads", "2"], ["--chunk", "1"], ["--chunk", "7"], ["--threads", "2", "--chunk", "7"]):
                    self.assertEqual(self.logits(name, "--math", math, *other), first, (name, math, other))

    def test_what_is_generated_has_the_arithmetic_of_generated_tokens(self):
        """A token's logits as --as generated lead to the token that run makes."""
        ids = run("run", golden("moe-fp8"), "--ids", "5", "-n", "12", "--temperature", "0", "--ignore-eos", "--print",
                  "ids", "-q").out.decode().strip()
        self.expect(run("logits", golden("moe-fp8"), "--ids", "5," + ids, "--as", "generated", "--out", self.path("l")), 0)
        (t, v), _, values = read_npy(self.path("l"))
        rows = [values[i * v:(i + 1) * v] for i in range(t)]
        self.assertEqual([r.index(max(r)) for r in rows[:-1]], [int(i) for i in ids.split(",")])

    def test_the_peak_of_memory_is_what_was_planned(self):
        """With a long chunk, so that activations are most of it, and a bound so tight that a plan which forgot them
        would be found out."""
        if SANITIZED:
            self.skipTest("SKIPPED: sanitizers take memory of their own")
        flags = ["--chunk", "4096", "--ctx", "8192", "--kv", "f32"]
        ids = ",".join(str(5 + i % 500) for i in range(4000))
        self.expect(run("run", golden("dense-ple"), "--ids", ids, "-n", "8", "--print", "ids", "--ignore-eos", "--stats",
                        self.path("s.json"), *flags), 0)
        with open(self.path("s.json")) as f:
            s = json.load(f)
        plan = json.loads(self.expect(run("plan", golden("dense-ple"), "--json", *flags), 0).out)["bytes"]
        self.assertEqual(plan["total"], s["planned_bytes"])
        self.assertLessEqual(s["peak_bytes"], 1.03 * plan["total"] + (1 << 20))
        self.assertGreater(s["peak_bytes"], 1.03 * (plan["total"] - plan["activations"]) + (1 << 20))

    def test_imposed_routes_are_what_is_reported(self):
        n, k = 4, None
        ids = "5,6,7,8"
        self.expect(run("logits", golden("moe-bf16"), "--ids", ids, "--out", self.path("a"), "--routes", self.path("r")), 0)
        shape, _, routes = read_npy(self.path("r_ids.npy"))
        self.assertEqual(shape[1], n)
        with open(self.path("r_ids.npy"), "r+b") as f:  # every expert becomes its neighbour
            data = bytearray(f.read())
            at = len(data) - 4 * len(routes)
            data[at:] = struct.pack(f"<{len(routes)}i", *[e ^ 1 for e in routes])
            f.seek(0)
            f.write(data)
        self.expect(run("logits", golden("moe-bf16"), "--ids", ids, "--out", self.path("b"), "--force-routes",
                        self.path("r_ids.npy"), "--routes", self.path("q")), 0)
        got, k = read_npy(self.path("q_ids.npy"))[2], shape[2]
        for i in range(0, len(routes), k):
            self.assertEqual(sorted(got[i:i + k]), sorted(e ^ 1 for e in routes[i:i + k]))
        self.assertNotEqual(read_npy(self.path("a"))[2], read_npy(self.path("b"))[2])


class Copies(Case):
    def copy(self, name="moe-bf16"):
        """A copy of a checkpoint, to be spoilt."""
        target = self.path("model")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(golden(name), target, ignore=shutil.ignore_patterns("c?_*.npy"))
        for root, _, files in os.walk(target):
            for f in files:
                os.chmod(os.path.join(root, f), 0o644)
        os.chmod(target, 0o755)
        return target


class MidRun(Copies):
    def start(self, model):
        """A run that would go on for long, once it has printed something."""
        p = subprocess.Popen([PROGRAM, "run", model, "--ids", "5", "-n", "1000000", "--print", "ids", "--ignore-eos"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
        self.assertTrue(p.stdout.read(20))
        return p

    def test_a_file_cut_short_ends_the_run_with_a_sentence(self):
        model = self.copy()
        p = self.start(model)
        os.truncate(os.path.join(model, "model.safetensors"), 0)
        err = p.communicate(timeout=60)[1].decode()
        self.assertEqual(p.returncode, 1, err)
        self.assertIn("model.safetensors", err)

    def test_ctrl_c_ends_it_with_statistics(self):
        p = self.start(golden("moe-bf16"))
        p.send_signal(signal.SIGINT)
        err = p.communicate(timeout=60)[1].decode()
        self.assertEqual(p.returncode, 130, err)
        self.assertIn("interrupted", err)

    def test_a_closed_pipe_ends_it_quietly(self):
        p = self.start(golden("moe-bf16"))
        p.stdout.close()
        with p.stderr:
            err = p.stderr.read().decode()
        self.assertEqual(p.wait(timeout=60), 0, err)
        self.assertNotIn("tokens/s", err)


class BadCheckpoints(Copies):
    """Each is refused with a sentence that names the file, and nothing is printed."""

    def refuse(self, model, *sentences):
        r = run("run", model, "--ids", "5", "-n", "2", "--print", "ids")
        self.expect(r, 3, *sentences)
        self.assertEqual(r.out, b"")

    def edit_config(self, change, *sentences, name="moe-bf16", file="config.json"):
        m = self.copy(name)
        path = os.path.join(m, file)
        with open(path, encoding="utf-8") as f:
            config = json.load(f)
        change(config)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f)
        self.refuse(m, *sentences)

    def test_a_missing_config(self):
        m = self.copy()
        os.remove(os.path.join(m, "config.json"))
        self.refuse(m, "config.json")

    def test_a_config_that_is_no_json(self):
        m = self.copy()
        for text in ("", "{", "[" * 100000, '{"a":1,"a":2}', '{"model_type": "\udcff"}'):
            with open(os.path.join(m, "config.json"), "w", errors="surrogateescape") as f:
                f.write(text)
            self.refuse(m, "config.json")

    def test_an_unknown_model_type(self):
        def change(c):
            c["model_type"] = "llama"
            c.get("text_config", c)["model_type"] = "llama"
        self.edit_config(change, "llama")

    def test_numbers_that_cannot_be(self):
        text = lambda c: c.get("text_config", c)
        for key, value in [("hidden_size", 0), ("hidden_size", -8), ("hidden_size", "96"), ("hidden_size", 1 << 40),
                           ("num_hidden_layers", 1.5), ("num_experts", 2), ("top_k_experts", 999),
                           ("sliding_window", 0), ("vocab_size", 0), ("rms_norm_eps", "small")]:
            with self.subTest(key=key, value=value):
                self.edit_config(lambda c: text(c).__setitem__(key, value), "config.json")

    def test_a_truncated_file(self):
        for cut in (0, 4, 100, 2000):
            m = self.copy()
            os.truncate(os.path.join(m, "model.safetensors"), cut)
            self.refuse(m, "model.safetensors")
        m = self.copy()
        path = os.path.join(m, "model.safetensors")
        os.truncate(path, os.path.getsize(path) - 1)
        self.refuse(m, "model.safetensors")

    def test_a_header_beyond_the_file(self):
        m = self.copy()
        for length in (1 << 63, (1 << 64) - 1, 1 << 40):
            with open(os.path.join(m, "model.safetensors"), "r+b") as f:
                f.write(struct.pack("<Q", length))
            self.refuse(m, "model.safetensors")

    def test_a_missing_shard(self):
        m = self.copy("moe-fp8")
        os.remove(os.path.join(m, "model-00002-of-00003.safetensors"))
        self.refuse(m, "model-00002-of-00003.safetensors")

    def test_a_tensor_renamed_is_missing_or_unused(self):
        m = self.copy()
        path = os.path.join(m, "model.safetensors")
        with open(path, "rb") as f:
            data = f.read()
        with open(path, "wb") as f:
            f.write(data.replace(b"layers.2.input_layernorm.weight", b"layers.2.input_layernorm.weighs", 1))
        self.refuse(m, "layers.2.input_layernorm.weigh")

    def test_an_unknown_quantisation(self):
        self.edit_config(lambda c: c.__setitem__("quantization_config", {"quant_method": "magic"}), "magic")

    def test_a_broken_tokenizer(self):
        m = self.copy()
        for text in ("{", "{}", '{"model":{"type":"WordPiece","vocab":{}}}'):
            with open(os.path.join(m, "tokenizer.json"), "w") as f:
                f.write(text)
            self.refuse(m, "tokenizer.json")

    def test_a_weight_that_is_no_number_ends_the_run_by_name(self):
        m = self.copy()
        path = os.path.join(m, "model.safetensors")
        with open(path, "r+b") as f:
            n = struct.unpack("<Q", f.read(8))[0]
            head = json.loads(f.read(n))
            name = next(k for k in head if k.endswith("layers.1.self_attn.q_proj.weight"))
            f.seek(8 + n + head[name]["data_offsets"][0])
            f.write(b"\xc0\x7f" * 16)  # NaN in bf16
        r = run("run", m, "--ids", "5", "-n", "2", "--print", "ids")
        self.assertIn(r.code, (1, 3), r)
        self.assertRegex(r.err, "layer.*1")
        self.assertEqual(r.out, b"")


@unittest.skipUnless(os.path.exists(os.path.join(DEMO, "config.json")), "SKIPPED: there is no demo model")
class Demo(Case):
    def test_it_is_the_model_when_none_is_named(self):
        ask = ["-p", "Once upon a time", "-n", "40", "-q"]
        self.assertEqual(self.expect(run("run", *ask), 0).out, run("run", DEMO, *ask).out)

    def test_it_tells_a_story_to_its_end(self):
        r = self.expect(run("run", "-p", "Once upon a time", "-n", "900"), 0, "end token")
        self.assertGreater(len(r.out.split()), 50)

    def test_texts_are_cut_and_put_together_as_its_tokenizer_says(self):
        path = os.path.join(GOLDENS, "demo", "tokenizer_cases.jsonl")
        with open(path, encoding="utf-8") as f:
            cases = [json.loads(line) for line in f]
        self.assertTrue(cases)
        for c in cases:
            special = ["--special"] if c["parse_special"] else []
            r = run("tokenize", "--stdin", "--no-bos", *special, stdin=c["text"].encode())
            self.assertEqual(r.out.decode().strip(), ",".join(map(str, c["ids"])), c)
            if c["ids"]:
                r = run("tokenize", "--special", "--decode", ",".join(map(str, c["ids"])))
                self.assertEqual(r.out.decode(), c["decoded"], c)


if __name__ == "__main__":
    main()
