#!/usr/bin/env python3
"""stdout, stderr, the bar, Ctrl-C, statistics.   usage: test_streams.py SLUICE_STANDIN"""
import json, os, signal, subprocess, time
from support import PROGRAM, Case, clean_environment, main, read_npy, run, run_on_terminal


class Text(Case):
    def test_stdout_has_the_text_alone(self):
        self.assertEqual(self.expect(run("run", self.model(), "-p", "a", "-n", "5"), 0).out, b"water")

    def test_statistics_go_to_stderr(self):
        self.expect(run("run", self.model(), "-p", "abc", "-n", "5"), 0, "prompt    4 tokens, 100.0 tokens/s",
                    "decode    4 tokens, 100.0 tokens/s", "to the first token", "MiB at the peak, 4.77 MiB planned",
                    "matmul_bt.panel x10")

    def test_arms_that_never_ran_are_not_listed(self):
        self.assertNotIn("idle", run("run", self.model(), "-p", "abc", "-n", "5").err)

    def test_quiet_leaves_stderr_empty(self):
        self.assertEqual(run("run", self.model(), "-p", "a", "-n", "5", "--quiet").err, "")

    def test_quiet_still_tells_errors(self):
        self.expect(run("run", self.path("none"), "-p", "a", "--quiet"), 3, "none")

    def test_an_end_token_ends_and_is_not_printed(self):
        r = self.expect(run("run", self.model("end 4"), "-p", "a"), 0, "end token")
        self.assertEqual(r.out, b"wat")

    def test_ignore_eos_goes_on(self):
        self.assertEqual(run("run", self.model("end 4"), "-p", "a", "-n", "6", "--ignore-eos").out, b"watr ")

    def test_ids_are_the_generated_ones_alone(self):
        self.assertEqual(run("run", self.model(), "--ids", "4,5", "-n", "3", "--print", "ids").out, b"123,101,120\n")

    def test_no_tokens_are_a_prompt_only(self):
        r = self.expect(run("run", self.model(), "-p", "a", "-n", "0"), 0, "prompt    2 tokens")
        self.assertEqual(r.out, b"")

    def test_without_n_a_full_context_ends_it(self):
        r = self.expect(run("run", self.model(), "-p", "a", "--ctx", "10"), 0, "context full")
        self.assertEqual(len(r.out), 9)  # 2 of prompt, 8 read back, and the last one that is not

    def test_special_names_become_tokens_only_when_asked(self):
        m = self.model()
        self.assertIn("prompt    6 tokens", run("run", m, "-p", "<end>", "-n1").err)
        self.assertIn("prompt    2 tokens", run("run", m, "-p", "<end>", "-n1", "--special").err)


class Prompts(Case):
    def test_a_file_is_the_prompt(self):
        with open(self.path("p.txt"), "w") as f:
            f.write("x" * 50)
        self.expect(run("run", self.model(), "-f", self.path("p.txt"), "-n", "1"), 0, "prompt    51 tokens")

    def test_stdin_is_the_prompt(self):
        self.expect(run("run", self.model(), "-f", "-", "-n", "1", stdin=b"abc"), 0, "prompt    4 tokens")
        self.assertEqual(run("tokenize", self.model(), "--stdin", "--no-bos", stdin=b"a\0b").out, b"101,4,102\n")

    def test_a_closed_stdin_is_no_prompt(self):
        for words in ("run MODEL -f - -n 1", "tokenize MODEL --stdin"):
            words = words.replace("MODEL", f"'{self.model()}'")
            p = subprocess.run(["sh", "-c", f"exec '{PROGRAM}' {words} <&-"], capture_output=True,
                               env=clean_environment())
            self.assertEqual((p.returncode, p.stdout), (3, b""))
            self.assertIn(b"stdin", p.stderr)

    def test_a_huge_stdin_is_refused_by_its_length(self):
        self.expect(run("run", self.model(), "-f", "-", stdin=b"x" * 5_000_000), 3, "5000001 tokens", "1000 fit")

    def test_a_missing_file_is_refused(self):
        self.expect(run("run", self.model(), "-f", self.path("none.txt")), 3, "none.txt")

    def test_a_folder_is_no_prompt(self):
        self.expect(run("run", self.model(), "-f", self.folder), 3, self.folder)

    def test_the_context_grows_to_prompt_and_answer(self):
        r = self.expect(run("run", self.model(), "-f", "-", "-n", "300", stdin=b"x" * 400), 0)
        self.assertEqual(len(r.out), 300)

    def test_ctx_is_kept_where_it_is_set(self):
        self.expect(run("run", self.model(), "-f", "-", "-n", "9", "--ctx", "200", stdin=b"x" * 400), 3, "401 tokens",
                    "200 fit")

    def test_more_tokens_than_fit_are_told_before(self):
        r = self.expect(run("run", self.model(), "-p", "a", "-n", "20", "--ctx", "8"), 0, "full after 7")
        self.assertEqual(len(r.out), 7)

    def test_ids_outside_the_vocabulary_are_refused(self):
        self.expect(run("run", self.model(), "--ids", "5,300"), 3, "token 1", "300")

    def test_an_empty_prompt_is_bos(self):
        self.expect(run("run", self.model(), "-p", "", "-n", "1"), 0, "prompt    1 tokens")


class NoTokenizer(Case):
    def test_text_is_refused_before_anything_is_loaded(self):
        m = self.model("slow", tokenizer=False)

        def refusal():
            began = time.time()
            self.expect(run("run", m, "--ids", "4"), 3, "tokenizer.json", "--print ids")
            return time.time() - began
        self.assertTrue(any(refusal() < 0.6 for _ in range(5)))  # loading alone takes 0.66 s
        self.expect(run("run", m, "-p", "a", "--print", "ids"), 3)

    def test_ids_are_served(self):
        m = self.model(tokenizer=False)
        self.assertEqual(run("run", m, "--ids", "4", "-n", "2", "--print", "ids").out, b"123,101\n")
        self.expect(run("inspect", m), 0)

    def test_tokenize_is_refused(self):
        self.expect(run("tokenize", self.model(tokenizer=False), "a"), 3, "tokenizer.json")


class Failures(Case):
    def test_a_failure_while_computing_is_1_and_keeps_what_was_printed(self):
        r = self.expect(run("run", self.model("fail 4"), "-p", "a"), 1, "layers.1: down_proj: not finite")
        self.assertEqual(r.out, b"wat")

    def test_a_full_disk_is_an_error(self):
        for command in (["run", self.model(), "-p", "a", "-n", "5"], ["tokenize", self.model(), "a"], ["ops"], ["--help"]):
            with open("/dev/full", "wb") as full:
                p = subprocess.run([PROGRAM, *command], stdout=full, stderr=subprocess.PIPE, env=clean_environment())
            self.assertEqual(p.returncode, 1, command)
            self.assertIn(b"No space left", p.stderr)

    def test_a_closed_pipe_ends_quietly_and_soon(self):
        p = subprocess.Popen([PROGRAM, "run", self.model("slow"), "-p", "a", "-n", "900"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=clean_environment())
        self.assertEqual(p.stdout.read(1), b"w")
        p.stdout.close()
        with p.stderr:
            err = p.stderr.read().decode()
        self.assertEqual(p.wait(timeout=10), 0)
        self.assertNotIn("pipe", err.lower())
        self.assertNotIn("error", err.lower())

    def test_a_stdout_closed_from_the_start_is_an_error(self):
        p = subprocess.run(["sh", "-c", f"exec '{PROGRAM}' ops >&-"], capture_output=True, env=clean_environment())
        self.assertEqual(p.returncode, 1)

    def test_a_closed_stdout_does_not_matter_where_nothing_goes_there(self):
        out = self.path("l.npy")
        p = subprocess.run(["sh", "-c", f"exec '{PROGRAM}' logits '{self.model()}' --ids 4,5 --out '{out}' >&- 2>&- <&-"],
                           env=clean_environment())
        self.assertEqual(p.returncode, 0)
        self.assertEqual(read_npy(out)[0], (2, 300))


class Statistics(Case):
    def test_stats_are_json(self):
        self.expect(run("run", self.model(), "-p", "abc", "-n", "5", "--stats", self.path("s.json")), 0)
        with open(self.path("s.json")) as f:
            s = json.load(f)
        self.assertEqual((s["prompt_tokens"], s["decode_tokens"]), (4, 4))
        self.assertAlmostEqual(s["prompt_tps"], 100, places=3)
        self.assertGreater(s["ttft_s"], 0)
        self.assertGreater(s["peak_bytes"], 1e6)
        self.assertLessEqual({"kernel": "matmul_bt.panel", "runs": 10}.items(), s["arms"][0].items())
        self.assertEqual(self.files(), ["s.json"])

    def test_stats_are_written_when_quiet(self):
        run("run", self.model(), "-p", "abc", "-n", "5", "-q", "--stats", self.path("s.json"))
        self.assertEqual(self.files(), ["s.json"])

    def test_a_place_that_cannot_be_written_is_refused_before_the_work(self):
        r = run("run", self.model(), "-p", "a", "-n", "5", "--stats", self.path("no", "s.json"))
        self.expect(r, 3, "s.json")
        self.assertEqual(r.out, b"")

    def test_a_full_disk_for_stats_is_an_error_behind_the_text(self):
        r = run("run", self.model(), "-p", "a", "-n", "5", "--stats", "/dev/full")
        self.expect(r, 1, "/dev/full")
        self.assertEqual(r.out, b"water")


class Interrupts(Case):
    """Nothing here counts on a moment: each signal is sent when the program has shown how far it is."""

    def start(self, *args, stdin=b""):
        p = subprocess.Popen([PROGRAM, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=clean_environment())
        p.stdin.write(stdin)
        p.stdin.close()
        p.stdin = None
        self.assertIn(b"skipped", p.stderr.readline())  # the model is open, and loading begins
        return p

    def wait_for_file(self, beginning):
        end = time.time() + 30
        while not any(f.startswith(beginning) for f in self.files()):
            self.assertLess(time.time(), end, self.files())
            time.sleep(0.02)

    def interrupt(self, *args, wait_for=1, times=1, stdin=b""):
        p = self.start(*args, stdin=stdin)
        out = p.stdout.read(wait_for) if wait_for else b""
        for _ in range(times):
            p.send_signal(signal.SIGINT)
            time.sleep(0.01)
        rest, err = p.communicate(timeout=30)
        return p.returncode, out + rest, err.decode()

    def test_ctrl_c_prints_the_statistics_and_exits_130(self):
        stats = self.path("s.json")
        code, out, err = self.interrupt("run", self.model("slow"), "-p", "a", "-n", "900", "--stats", stats, wait_for=3)
        self.assertEqual(code, 130, err)
        self.assertTrue(b"water runs downhill".startswith(out[:19]), out)
        self.assertIn("interrupted", err)
        self.assertIn("decode", err)
        with open(stats) as f:
            self.assertEqual(json.load(f)["ended"], "interrupted")

    def test_ctrl_c_during_the_prompt(self):
        p = self.start("run", self.model("slow"), "-f", "-", "-n", "5", stdin=b"x" * 900)
        time.sleep(1.5)  # loading takes 0.7 s, the prompt 8 s; earlier or later, no token may come
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=30)
        self.assertEqual((p.returncode, out), (130, b""), err)

    def test_ctrl_c_while_loading_exits_130(self):
        code, out, _ = self.interrupt("run", self.model("slow"), "-p", "a", "-n", "900", wait_for=0)
        self.assertEqual((code, out), (130, b""))

    def test_a_second_ctrl_c_ends_at_once(self):
        code, _, _ = self.interrupt("run", self.model("slow"), "-p", "a", "-n", "900", times=2)
        self.assertEqual(code, 130)

    def test_bench_is_interrupted_too(self):
        p = self.start("bench", self.model("slow"), "-p", "100", "-n", "100")
        time.sleep(1)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=30)
        self.assertEqual((p.returncode, out), (130, b""), err)

    def logits(self):
        p = self.start("logits", self.model("slow"), "--ids", ",".join("4" * 900), "--out", self.path("l.npy"))
        self.wait_for_file("l.npy.")  # under its temporary name
        return p

    def test_interrupted_logits_leave_no_file(self):
        p = self.logits()
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=30)
        self.assertEqual((p.returncode, self.files()), (130, []))

    def test_being_ended_leaves_no_temporary_file(self):
        p = self.logits()
        p.terminate()
        p.communicate(timeout=30)
        self.assertEqual((p.returncode, self.files()), (-signal.SIGTERM, []))


class Bar(Case):
    def test_a_terminal_gets_a_bar_that_goes_away(self):
        r = run_on_terminal("run", self.model("slow"), "-p", "x" * 60, "-n", "2")
        self.assertEqual((r.code, r.out), (0, b"wa"), r)
        self.assertIn("loading", r.err)
        self.assertRegex(r.err, r"prompt +\[=*>? *\] \d+/61 tokens")
        last = r.err.rindex("tokens \r") if "tokens \r" in r.err else r.err.rindex("]")
        self.assertIn("\r" + " " * 79 + "\r", r.err[last:])

    def test_no_bar_where_stderr_is_no_terminal(self):
        self.assertNotIn("[", run("run", self.model("slow"), "-p", "x" * 60, "-n", "1").err)

    def test_no_bar_on_a_dumb_terminal_or_when_quiet(self):
        m = self.model("slow")
        self.assertNotIn("[=", run_on_terminal("run", m, "-p", "x" * 60, "-n", "1", env={"TERM": "dumb"}).err)
        self.assertEqual(run_on_terminal("run", m, "-p", "x" * 60, "-n", "1", "-q").err, "")

    def test_no_color_is_honoured(self):
        m = self.model()
        self.assertIn("\033[", run_on_terminal("run", m, "-p", "a", "-n", "1").err)
        self.assertNotIn("\033[", run_on_terminal("run", m, "-p", "a", "-n", "1", env={"NO_COLOR": "1"}).err)

    def test_ctrl_c_on_a_terminal(self):
        r = run_on_terminal("run", self.model("slow"), "-p", "a", "-n", "900", interrupt_after=b"wat", both=True)
        self.assertEqual(r.code, 130, r)
        self.assertIn("interrupted", r.err)

    def test_statistics_begin_a_line_where_both_streams_are_one(self):
        words = [PROGRAM, "run", self.model(), "-p", "a", "-n", "5"]
        both = lambda *more: subprocess.run(words + list(more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                            env=clean_environment()).stdout
        self.assertIn(b"water\nprompt", both())
        self.assertEqual(both("-q"), b"water")
        self.assertNotIn(b"\n\n", both("--print", "ids"))

    def test_text_on_a_terminal_ends_with_a_newline(self):
        r = run_on_terminal("run", self.model(), "-p", "a", "-n", "5", "-q", both=True)
        self.assertEqual(r.err, "water\r\n")


if __name__ == "__main__":
    main()
