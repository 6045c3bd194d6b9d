#!/usr/bin/env python3
"""The rules that ./dev lint holds the sources to, each broken on purpose.   usage: test_rules.py DEV"""
import os, shutil, subprocess, sys, tempfile, unittest

DEV = os.path.abspath(sys.argv[1])


@unittest.skipUnless(shutil.which("git"), "SKIPPED: there is no git")
class Rules(unittest.TestCase):
    def judge(self, **files):
        """Exit status and words of ./dev rules on a project of these files; __ in a name is /, and _dot_ is a dot."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(DEV, os.path.join(folder, "dev"))
            for name, text in files.items():
                path = os.path.join(folder, name.replace("__", "/").replace("_dot_", "."))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w") as f:
                    f.write(text)
            for words in (["init", "-q"], ["add", "."]):
                subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
            p = subprocess.run(["sh", "./dev", "rules"], cwd=folder, capture_output=True, text=True)
            return p.returncode, p.stderr

    def refuse(self, words, **files):
        code, err = self.judge(**files)
        self.assertEqual(code, 1, err)
        self.assertIn(words, err)

    def test_plain_code_passes(self):
        code, err = self.judge(src__ops__a_dot_c='#include "ops/ops.h"\nint f(char *s) { return snprintf(s, 1, "x"); }\n',
                               README_dot_md="[here](src/ops/a.c) [there](https://example.org)\n")
        self.assertEqual((code, err), (0, ""))

    def test_an_include_that_climbs(self):
        self.refuse("climbs out", src__ops__a_dot_c='#include "../engine/engine.h"\n')

    def test_a_library_that_reads_the_environment(self):
        self.refuse("environment", src__engine__a_dot_c='int f(void) { return getenv("HOME") != 0; }\n')
        self.refuse("environment", src__engine__a_dot_c="extern char **environ;\n")

    def test_a_library_that_exits(self):
        for call in ("exit(1)", "abort()", "_exit(1)"):
            self.refuse("exits", src__base__a_dot_c=f"void f(void) {{ {call}; }}\n")

    def test_a_library_that_prints(self):
        for call in ('printf("x")', 'fprintf(stderr, "x")', 'puts("x")', 'perror("x")'):
            self.refuse("prints", src__base__a_dot_c=f"void f(void) {{ {call}; }}\n")

    def test_the_program_may_do_all_that(self):
        code, err = self.judge(src__cli__a_dot_c='int f(void) { printf("x"); return getenv("HOME") != 0; }\n',
                               src__base__b_dot_c="int b;\n")
        self.assertEqual((code, err), (0, ""))

    def test_a_link_to_nothing(self):
        self.refuse("leads nowhere", README_dot_md="[x](docs/none.md)\n", src__base__b_dot_c="int b;\n")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
