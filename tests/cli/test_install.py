#!/usr/bin/env python3
"""cmake --install into an empty folder, and a program built against what is there with pkg-config, as a user would.
usage: test_install.py BUILD_FOLDER SOURCE_FOLDER COMPILER"""
import glob, os, shutil, subprocess, sys, tempfile, unittest

BUILD, SOURCE, COMPILER = sys.argv[1:4]
MODEL = os.path.join(SOURCE, "tests", "goldens", "moe-bf16")


def sh(*args, **kwargs):
    p = subprocess.run(args, capture_output=True, text=True, **kwargs)
    if p.returncode:
        raise AssertionError(f"{args}: exit {p.returncode}\n{p.stdout}\n{p.stderr}")
    return p.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="sluice-install-")
        cls.prefix = os.path.join(cls.folder, "moved")
        sh("cmake", "--install", BUILD, "--prefix", os.path.join(cls.folder, "first"))
        os.rename(os.path.join(cls.folder, "first"), cls.prefix)  # nothing may depend on where it was installed
        pc = glob.glob(os.path.join(cls.prefix, "lib*", "**", "sluice.pc"), recursive=True)[0]
        cls.env = {**{k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")},
                   "PKG_CONFIG_PATH": os.path.dirname(pc)}
        cls.lib = os.path.dirname(os.path.dirname(pc))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def build_example(self, *how, extra=()):
        flags = sh("pkg-config", *how, "--cflags", "--libs", "sluice", env=self.env).split()
        out = os.path.join(self.folder, "generate")
        sh(COMPILER, "-std=c17", os.path.join(SOURCE, "examples", "generate.c"), *extra, *flags, "-o", out)
        return out

    def say(self, program, **env):
        return sh(program, MODEL, "water", "5", env={**self.env, **env})

    def test_a_program_builds_against_the_shared_library(self):
        program = self.build_example()
        self.assertIn("libsluice.so", sh("readelf", "-d", program))
        self.assertTrue(self.say(program, LD_LIBRARY_PATH=self.lib))

    def test_a_program_builds_against_the_static_library(self):
        os.makedirs(os.path.join(self.folder, "static"), exist_ok=True)
        shutil.copy(os.path.join(self.lib, "libsluice.a"), os.path.join(self.folder, "static"))
        program = self.build_example("--static", extra=["-L" + os.path.join(self.folder, "static")])
        self.assertNotIn("libsluice.so", sh("readelf", "-d", program))
        self.assertTrue(self.say(program))

    def test_the_shared_library_exports_what_the_header_declares_and_no_more(self):
        names = {line.split()[-1].split("@")[0] for line in
                 sh("nm", "-D", "--defined-only", os.path.join(self.lib, "libsluice.so")).splitlines()}
        declared = ""
        for header in ("sluice.h", "status.h"):
            with open(os.path.join(self.prefix, "include", "sluice", header)) as f:
                declared += f.read()
        self.assertTrue(names)
        for name in names:
            self.assertIn(name + "(", declared)

    def test_the_program_runs_from_where_it_is(self):
        program = os.path.join(self.prefix, "bin", "sluice")
        self.assertTrue(sh(program, "--version").startswith("sluice "))
        demo = os.path.join(self.prefix, "share", "sluice", "models", "demo")
        if os.path.isdir(demo):
            self.assertTrue(sh(program, "run", "-p", "One day", "-n", "5", "-q", env=self.env))

    def test_the_completion_is_where_bash_looks(self):
        path = os.path.join(self.prefix, "share", "bash-completion", "completions", "sluice")
        sh("bash", "-n", path)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
