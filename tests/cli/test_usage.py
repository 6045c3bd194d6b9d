#!/usr/bin/env python3
"""Words, flags, environment names, MODEL, help and completion.   usage: test_usage.py SLUICE_STANDIN"""
import os, re, subprocess
from support import PROGRAM, Case, clean_environment, main, run

COMMANDS = ["run", "logits", "tokenize", "inspect", "plan", "ops", "bench", "completion"]


class Words(Case):
    def test_no_command_is_wrong_usage(self):
        self.expect(run(), 2, "which command")

    def test_an_unknown_command_is_named_beside_those_there_are(self):
        self.expect(run("frob"), 2, '"frob"', "tokenize")
        self.expect(run("help", "frob"), 2, '"frob"', "tokenize")

    def test_version_is_printed(self):
        for word in ("--version", "version", "-V"):
            self.assertEqual(self.expect(run(word), 0).out, b"sluice 0.0.standin\n")

    def test_help_of_every_command_names_its_flags(self):
        flags = {"run": ["--prompt", "-p,", "-n,", "--temperature", "--stats", "--kernels", "--quiet"],
                 "logits": ["--out", "--routes", "--force-routes", "--as", "--kv"],
                 "tokenize": ["--stdin", "--no-bos", "--decode"], "inspect": ["--json"], "plan": ["--ctx", "--json"],
                 "ops": ["--json"], "bench": ["--threads", "--prompt-tokens"], "completion": []}
        for command in COMMANDS:
            for way in ([command, "--help"], ["help", command], [command, "-h"]):
                r = self.expect(run(*way), 0)
                for flag in flags[command]:
                    self.assertIn(flag, r.out.decode(), way)

    def test_help_fits_in_80_columns(self):
        for words in [["--help"]] + [[command, "--help"] for command in COMMANDS]:
            for line in run(*words).out.decode().split("\n"):
                self.assertLessEqual(len(line), 80, line)

    def test_help_comes_even_beside_a_mistake(self):
        self.expect(run("run", "--frob", "--help"), 0)

    def test_an_unknown_flag_is_named(self):
        self.expect(run("run", self.model(), "-p", "a", "--frob"), 2, "--frob")
        self.expect(run("run", self.model(), "-p", "a", "-z"), 2, "-z")

    def test_a_flag_of_another_command_is_told_apart(self):
        self.expect(run("ops", "--out", "x"), 2, "--out is not a flag of sluice ops", "sluice logits")

    def test_a_missing_value_is_named(self):
        self.expect(run("run", self.model(), "-p"), 2, "-p", "TEXT")

    def test_values_out_of_range_are_wrong_usage(self):
        m = self.model()
        for flag, value in [("-n", "x"), ("-n", "-1"), ("-n", "1.5"), ("-n", ""), ("--temperature", "-1"),
                            ("--temperature", "nan"), ("--temperature", "inf"), ("--temperature", "0x1"),
                            ("--top-p", "1.1"), ("--min-p", "2"), ("--top-k", "-3"), ("--seed", "-1"),
                            ("--seed", "99999999999999999999"), ("--print", "words"), ("--print", "t"),
                            ("--kv", "f8"), ("--math", "loose"), ("--kernels", "neon"), ("--threads", "0"),
                            ("--ctx", "-5"), ("--chunk", "none"), ("--stats", "")]:
            with self.subTest(flag=flag, value=value):
                self.expect(run("run", m, "-p", "a", flag, value), 2, flag)

    def test_ids_must_be_numbers(self):
        for ids in ("", "a", "1,b", "1;2", "-1", "99999999999", "1.5", "0x2"):
            with self.subTest(ids=ids):
                self.expect(run("run", self.model(), "--ids", ids), 2, "--ids")

    def test_values_can_follow_an_equals_sign_or_the_letter(self):
        m = self.model()
        self.assertEqual(run("run", m, "--prompt=hi", "--tokens=5").out, b"water")
        self.assertEqual(run("run", m, "-phi", "-n5").out, b"water")

    def test_a_switch_takes_no_value(self):
        self.expect(run("ops", "--json=1"), 2, "--json")

    def test_two_dashes_end_the_flags(self):
        r = self.expect(run("tokenize", "--no-bos", self.model(), "--", "-a"), 0)
        self.assertEqual(r.out, b"49,101\n")

    def test_one_word_too_many_is_named(self):
        self.expect(run("run", self.model(), "more", "-p", "a"), 2, '"more"')

    def test_prompts_exclude_each_other(self):
        m = self.model()
        for ways in (["-p", "a", "-f", "b"], ["-p", "a", "--ids", "1"], ["-f", "a", "--ids", "1"]):
            self.expect(run("run", m, *ways), 2, "exclude")
        self.expect(run("run", m), 2, "-p TEXT")

    def test_tokenize_wants_one_source(self):
        m = self.model()
        self.expect(run("tokenize"), 2, "--stdin")
        self.expect(run("tokenize", "a text"), 2, '"a text" is read as the MODEL', "--stdin")
        self.expect(run("tokenize", m, "a", "--stdin"), 2)
        self.expect(run("tokenize", m, "--decode", "1", "--stdin"), 2)

    def test_logits_wants_ids_and_a_file(self):
        self.expect(run("logits", self.model(), "--out", self.path("x")), 2, "--ids")
        self.expect(run("logits", self.model(), "--ids", "1"), 2, "--out")

    def test_wrong_usage_is_said_before_the_model_is_looked_for(self):
        self.expect(run("run", self.path("nothing"), "-p", "a", "-n", "x"), 2)


class Environment(Case):
    def test_a_flag_can_come_from_the_environment(self):
        r = run("run", self.model(), "-p", "a", env={"SLUICE_TOKENS": "3", "SLUICE_PRINT": "ids"})
        self.assertEqual(self.expect(r, 0).out, b"123,101,120\n")

    def test_the_command_line_wins(self):
        r = run("run", self.model(), "-p", "a", "-n", "2", env={"SLUICE_TOKENS": "3"})
        self.assertEqual(self.expect(r, 0).out, b"wa")

    def test_a_prompt_on_the_command_line_wins_over_another_kind(self):
        self.expect(run("run", self.model(), "-p", "a", "-n", "1", env={"SLUICE_IDS": "4"}), 0)

    def test_an_unknown_name_is_wrong_usage(self):
        for name in ("SLUICE_FROB", "SLUICE_TOPK", "SLUICE_top_k", "SLUICE_", "SLUICE_HELP"):
            self.expect(run("ops", env={name: "1"}), 2, name)

    def test_a_name_of_another_command_is_fine(self):
        self.expect(run("ops", env={"SLUICE_TEMPERATURE": "0.5"}), 0)

    def test_a_bad_value_names_the_variable(self):
        self.expect(run("run", self.model(), "-p", "a", env={"SLUICE_TOP_P": "7"}), 2, "SLUICE_TOP_P")
        self.expect(run("run", self.model(), "-p", "a", env={"SLUICE_KV": "f8"}), 2, "SLUICE_KV")
        self.expect(run("run", self.model(), "-p", "a", env={"SLUICE_QUIET": "yes"}), 2, "SLUICE_QUIET")

    def test_a_switch_is_1_or_0(self):
        self.assertEqual(run("run", self.model(), "-p", "a", "-n1", env={"SLUICE_QUIET": "1"}).err, "")
        self.assertIn("prompt", run("run", self.model(), "-p", "a", "-n1", env={"SLUICE_QUIET": "0"}).err)

    def test_every_flag_has_a_name_in_the_environment(self):
        names = set()
        for command in COMMANDS:
            names |= set(re.findall(r"--([a-z-]+)", run(command, "--help").out.decode()))
        names -= {"help"}
        self.assertGreater(len(names), 25)
        for name in names:  # ops takes few of them, so only the spelling is judged
            variable = "SLUICE_" + name.upper().replace("-", "_")
            self.assertEqual(run("ops", env={variable: "1"}).code, 0, variable)


class Models(Case):
    def test_a_folder_that_is_not_there_is_refused(self):
        self.expect(run("run", self.path("none"), "-p", "a"), 3, self.path("none"))

    def test_an_empty_name_is_refused(self):
        self.expect(run("inspect", ""), 3, "MODEL is empty")

    def test_what_the_library_refuses_is_said_in_its_words(self):
        self.expect(run("run", self.model("refused"), "-p", "a"), 3, "model_type: refused")

    def hub(self, ref="0123abcd", snapshot="0123abcd"):
        base = self.path("hf", "hub", "models--some-org--some.model")
        os.makedirs(os.path.join(base, "refs"))
        os.makedirs(os.path.join(base, "snapshots", snapshot))
        open(os.path.join(base, "snapshots", snapshot, "config.json"), "w").close()
        with open(os.path.join(base, "refs", "main"), "w") as f:
            f.write(ref)
        return {"HF_HOME": self.path("hf")}

    def test_org_name_is_found_in_the_cache(self):
        self.expect(run("inspect", "some-org/some.model", env=self.hub()), 0)

    def test_the_cache_is_also_under_home_and_xdg(self):
        self.hub()
        os.makedirs(self.path("home", ".cache"))
        os.rename(self.path("hf"), self.path("home", ".cache", "huggingface"))
        self.expect(run("inspect", "some-org/some.model", env={"HOME": self.path("home")}), 0)
        xdg = {"HOME": "/nonexistent", "XDG_CACHE_HOME": self.path("home", ".cache")}
        self.expect(run("inspect", "some-org/some.model", env=xdg), 0)

    def test_what_was_looked_for_is_listed(self):
        self.expect(run("inspect", "some/other", env=self.hub()), 3, "some/other", "hub/models--some--other",
                    "hf download some/other")

    def test_a_reference_to_nothing_is_named(self):
        self.expect(run("inspect", "some-org/some.model", env=self.hub(ref="9999")), 3, "9999", "refs/main")

    def test_a_reference_cannot_lead_out_of_the_cache(self):
        self.expect(run("inspect", "some-org/some.model", env=self.hub(ref="../../../..")), 3, "refs/main")

    def test_a_name_cannot_lead_out_of_the_cache(self):
        env = self.hub()
        for name in ("../x", "a/..", "a/b/c", "/x", "a/b c"):
            self.expect(run("inspect", name, env=env), 3)

    def test_without_a_model_the_demo_is_looked_for_beside_the_program(self):
        program = self.path("bin", "sluice")
        os.makedirs(self.path("bin"))
        os.link(PROGRAM, program) if os.stat(PROGRAM).st_dev == os.stat(self.folder).st_dev else \
            subprocess.run(["cp", PROGRAM, program], check=True)
        ask = lambda: subprocess.run([program, "run", "-p", "a", "-n1", "-q"], capture_output=True,
                                     env=clean_environment())
        p = ask()
        self.assertEqual(p.returncode, 3)
        self.assertIn(b"../share/sluice/models/demo", p.stderr)
        for place in ("share/sluice/models/demo", "models/demo"):
            os.makedirs(self.path(place))
            for name in ("config.json", "tokenizer.json"):
                open(self.path(place, name), "w").close()
            self.assertEqual(ask().stdout, b"w", place)
            os.remove(self.path(place, "config.json"))
            os.remove(self.path(place, "tokenizer.json"))
            os.rmdir(self.path(place))


class Completion(Case):
    def complete(self, *words):
        script = run("completion").out.decode()
        line = " ".join(f"'{w}'" for w in ("sluice",) + words)
        ask = f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _sluice; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        p = subprocess.run(["bash", "-c", ask], capture_output=True, cwd=self.folder)
        self.assertEqual(p.stderr, b"")
        return sorted(line for line in p.stdout.decode().splitlines() if line)

    def test_commands_are_completed(self):
        self.assertEqual(self.complete("in"), ["inspect"])
        self.assertLess(set(COMMANDS), set(self.complete("")))

    def test_flags_are_those_of_the_command(self):
        self.assertEqual(self.complete("run", "--to"), ["--tokens", "--top-k", "--top-p"][0:3])
        self.assertEqual(self.complete("ops", "--to"), [])

    def test_words_of_a_choice_are_completed(self):
        self.assertEqual(self.complete("run", "--kv", ""), ["f16", "f32"])
        self.assertEqual(self.complete("logits", "--as", "g"), ["generated"])

    def test_files_and_folders_are_completed(self):
        open(self.path("story.txt"), "w").close()
        os.makedirs(self.path("stories"))
        self.assertEqual(self.complete("run", "-f", "sto"), ["stories", "story.txt"])
        self.assertEqual(self.complete("run", "sto"), ["stories"])

    def test_a_name_with_a_space_is_one_answer(self):
        os.makedirs(self.path("my models", "one"))
        self.assertEqual(self.complete("run", "my"), ["my models"])
        self.assertEqual(self.complete("run", "my\\ models/"), ["my models/one"])

    def test_a_value_behind_an_equals_sign_is_completed(self):
        self.assertEqual(self.complete("run", "--math", "=", "f"), ["fast"])
        self.assertEqual(self.complete("run", "--kv", "="), ["f16", "f32"])

    def test_folders_are_offered_where_a_model_goes(self):
        os.makedirs(self.path("inside"))
        self.assertEqual(self.complete("plan", "in"), ["inside"])
        self.assertEqual(self.complete("help", "in"), ["inspect"])
        for command in ("ops", "version", "completion"):
            self.assertEqual(self.complete(command, "in"), [], command)

    def test_other_shells_are_refused(self):
        self.expect(run("completion", "fish"), 2, "bash")


class Reports(Case):
    def test_json_is_what_the_library_says(self):
        import json
        m = self.model()
        self.assertEqual(set(json.loads(run("inspect", m, "--json").out)),
                         {"config", "tensors", "skipped", "totals", "tokenizer"})
        self.assertIn("limits", json.loads(run("plan", m, "--json").out))
        self.assertIn("cells", json.loads(run("ops", "--json").out))

    def test_tables_are_made_from_it(self):
        m = self.model()
        inspect = run("inspect", m).out.decode()
        for words in ("experts.*.down_proj.weight (2)", "F8_E4M3", "vision_tower", "no images"):
            self.assertIn(words, inspect)
        plan = run("plan", m).out.decode()
        for words in ("layers 0, 2", "layer 1", "q_proj", "panel", "decode", "2.00 MiB", "123.4", "--math fast"):
            self.assertIn(words, plan)
        ops = run("ops").out.decode()
        for words in ("matmul_bt", "-       not written"):
            self.assertIn(words, ops)

    def test_bench_takes_medians_and_shares_of_the_limits(self):
        import json
        r = json.loads(self.expect(run("bench", self.model(), "-p", "20", "-n", "10", "--json"), 0).out)
        self.assertEqual((r["prompt_tokens"], r["decode_tokens"]), (20, 10))
        self.assertAlmostEqual(r["prompt_tps"], 100, places=3)
        self.assertAlmostEqual(r["decode_tps"], 100, places=3)
        self.assertAlmostEqual(r["decode_share_of_read_bandwidth"], 0.1, places=5)  # 100/s of 1 MB; 1 GB/s
        self.assertAlmostEqual(r["prompt_share_of_f32_peak"], 0.02, places=5)      # 100/s of 2 MFLOP; 10 GFLOPS
        self.assertIsNone(r["prompt_share_of_bf16_peak"])
        for key in ("ttft_s", "peak_bytes", "arms"):
            self.assertIn(key, r)
        self.assertIn("10 % of read bandwidth", run("bench", self.model(), "-p", "20", "-n", "10").out.decode())

    def test_bench_that_does_not_fit_is_refused(self):
        self.expect(run("bench", self.model(), "-p", "990", "-n", "20"), 3, "1000")


if __name__ == "__main__":
    main()
